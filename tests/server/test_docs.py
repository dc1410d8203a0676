"""docs/server.md lists all problems."""

import re

from pywheel.server.problems import KINDS
from tests.docs.pages import text


def test_every_kind_of_problem_is_listed_with_its_status():
    rows = re.findall(r"^\| (\d{3}) \| (`.*`) \|$", text("docs/server.md"), re.MULTILINE)
    listed = {name: int(status) for status, names in rows for name in re.findall(r"`([a-z0-9-]+)`", names)}
    assert listed == {name: kind.status for name, kind in KINDS.items()}
