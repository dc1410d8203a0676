"""The verdict of type checkers on a program that uses tasks, from outside."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.isolated.child import ROOT, environment

pytestmark = pytest.mark.stress


@pytest.fixture
def program(tmp_path):
    """A program in a folder of its own: no settings of this project count there."""
    return Path(shutil.copy(Path(__file__).with_name("typed_tasks.py"), tmp_path))


def run(*command, **options):
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, **options)


def test_mypy_strict_sees_the_types_of_tasks(program):
    pytest.importorskip("mypy")
    options = ["--strict", "--config-file=", f"--cache-dir={ROOT / 'build' / 'typed'}"]
    done = run("mypy", *options, program.name, cwd=program.parent, env=environment(MYPYPATH=str(ROOT / "src")))
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_sees_the_types_of_tasks(program):
    pytest.importorskip("pyright")
    if run("pyright", "--version").returncode:
        pytest.skip("pyright cannot be fetched")
    settings = {
        "typeCheckingMode": "standard",
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
        "extraPaths": [str(ROOT / "src")],
    }
    program.with_name("pyrightconfig.json").write_text(json.dumps(settings))
    done = run("pyright", "--pythonpath", sys.executable, cwd=program.parent)
    assert done.returncode == 0, done.stdout + done.stderr
