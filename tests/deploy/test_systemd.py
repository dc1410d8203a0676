"""The units, as systemd sees them."""

import configparser
import re
import sys
from pathlib import Path

import pytest

from tests.deploy.tools import DEPLOY, SYSTEMD_ANALYZE, checked

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAM = "/srv/shop/.venv/bin/pywheel"


@pytest.mark.servers
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_the_unit_is_sound(tmp_path, unit):
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(PROGRAM, str(Path(sys.executable).with_name("pywheel"))))
    assert str(copy.name) not in checked(SYSTEMD_ANALYZE, "verify", "--man=no", str(copy))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_the_unit_waits_longer_than_the_grace(unit):
    """Its command line is parsed in tests/packaging/test_deploy.py."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(unit.read_text())
    assert parser["Service"]["ExecStart"].startswith(f"{PROGRAM} ")
    seconds = re.search(r"--grace (\d+)s", parser["Service"]["ExecStart"])
    assert seconds is None or int(seconds[1]) < int(parser["Service"]["TimeoutStopSec"])
