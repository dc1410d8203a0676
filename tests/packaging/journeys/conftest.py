"""Whole days of a program, as its users have them: from the installed wheel, in an environment with nothing of ours."""

import subprocess
import time

import pytest

from tests.frameworks.programs import Program
from tests.packaging.tools import INHERITED, Environment

NEEDED = ("SQLAlchemy[asyncio]>=2", "asyncpg", "aiosqlite", "fastapi", "uvicorn", "Django>=4.2")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "journeys":
            item.add_marker("packaging")


@pytest.fixture(scope="session")
def python(wheel, tmp_path_factory):
    """The Python of an environment with the wheel, its extras, and what the programs need themselves."""
    environment = Environment(tmp_path_factory.mktemp("journeys") / "environment")
    environment.install(f"{wheel}[cli,cron,mysql,postgres,server]", *NEEDED)
    assert "site-packages" in environment.run("import pywheel; print(pywheel.__file__)")
    return environment.python


@pytest.fixture
def start(python, tmp_path):
    """Starts a program in a folder of the test's own; the test's end kills it."""
    started = []

    def start(*command, folder=tmp_path, **variables):
        log = tmp_path / f"{len(started)}.log"
        started.append(Program(command, folder, log, variables, python=python, inherited=INHERITED))
        return started[-1]

    yield start
    for program in started:
        program.kill()


@pytest.fixture
def pywheel(python, tmp_path):
    """Runs the command line; returns what it printed. Another exit code than the one that is given fails."""

    def pywheel(*arguments, code=0, given=None, **variables):
        result = subprocess.run(
            [python.with_name("pywheel"), *map(str, arguments)],
            cwd=tmp_path,
            env={**INHERITED, **variables},
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.returncode == code, f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}"
        assert "Traceback" not in result.stderr, result.stderr
        return result.stdout + result.stderr

    return pywheel


@pytest.fixture
def pause():
    """Waits: a process is to be killed in the middle of its work, wherever that is."""
    return time.sleep
