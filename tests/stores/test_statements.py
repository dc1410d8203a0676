"""The statements of the databases: of two with one name the second would silently take the place of the first."""

import re
from pathlib import Path

import pytest

import pywheel.stores

ROOMS = sorted({file.parent for file in Path(pywheel.stores.__file__).parent.glob("*/sql/*.sql")})


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.parent.name)
def test_every_statement_has_a_name_of_its_own(room):
    names = [
        name for file in room.glob("*.sql") for name in re.findall(r"^-- name: (\S+)", file.read_text(), re.MULTILINE)
    ]
    assert [name for name in set(names) if names.count(name) > 1] == []
    assert names
