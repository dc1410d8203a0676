"""docs/server.md lists all that can go wrong."""

import re

from pywheel.server.problems import KINDS
from tests.docs.pages import text


def test_every_kind_of_problem_is_listed():
    listed = re.findall(r"^\| `([a-z0-9-]+)` \| (\d+) \| (.*) \|$", text("docs/server.md"), re.MULTILINE)
    assert {name: (int(status), title) for name, status, title in listed} == {
        name: tuple(kind) for name, kind in KINDS.items()
    }
