"""The units, as systemd sees them."""

import configparser
import re
import shlex
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
def test_the_unit_starts_what_there_is(unit, capsys):
    """Its command line has no option that the command has not."""
    from typer.main import get_command

    from pywheel.cli.app import app

    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(unit.read_text())
    program, command, *arguments = shlex.split(parser["Service"]["ExecStart"])
    assert program == PROGRAM
    commands = get_command(app).commands
    if command == "serve" and command not in commands:
        pytest.skip("the service is not there yet")
    known = {name for parameter in commands[command].params for name in parameter.opts}
    assert {argument for argument in arguments if argument.startswith("--")} <= known
    seconds = re.search(r"--grace (\d+)s", parser["Service"]["ExecStart"])
    assert seconds is None or int(seconds[1]) < int(parser["Service"]["TimeoutStopSec"])
