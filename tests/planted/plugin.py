"""A plugin of pytest that plants one fault before any test is imported, and keeps the outcomes of the tests.

`python -m pytest NODEID -p tests.planted.plugin` with PLANTED, the fault's name, and PLANTED_REPORT, a file of lines.
"""

import json
import os
from pathlib import Path

from tests.planted.planted import FAULTS

if name := os.environ.get("PLANTED"):
    FAULTS[name].plant()


def pytest_runtest_logreport(report):
    line = {"when": report.when, "failed": report.failed, "text": report.longreprtext}
    with Path(os.environ["PLANTED_REPORT"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
