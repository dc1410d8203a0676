"""Runs programs, in this environment and in fresh ones."""

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = Path(__file__).parent  # a folder from which neither src nor the installed package can be seen


# The programs started here do not get this run's settings of pywheel.
INHERITED = {
    name: value for name, value in os.environ.items() if not name.startswith("PYWHEEL_") and name != "CIBUILDWHEEL"
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
AS_RELEASED = PROJECT["tool"]["cibuildwheel"]["linux"]["environment"]


def run(command, *, cwd=ELSEWHERE, check=True, **variables):
    """Run a program with some environment variables set; return what it printed, errors included."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**INHERITED, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if check and result.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}\nexit code {result.returncode}\n{result.stdout}")
    return result.stdout if check else (result.returncode, result.stdout)


def python(*words):
    """This Python, with its own environment."""
    return [sys.executable, *words]


class Environment:
    """A virtual environment."""

    def __init__(self, folder):
        venv.create(folder, symlinks=os.name != "nt")
        scripts = "Scripts" if os.name == "nt" else "bin"
        self.python = folder / scripts / ("python.exe" if os.name == "nt" else "python")

    def install(self, *what, **variables):
        """Install with this environment's pip; return what it printed."""
        return run([*python("-m", "pip", "--python", self.python, "install"), *what], **variables)

    def run(self, program, *options, **variables):
        """Run a program given as text; return what it printed."""
        return run([self.python, *options, "-c", program], **variables)


def sdist_of_a_copy(folder):
    """Return the sdist of a copy of the sources: where it was built before, setuptools adds what it packed then."""
    made = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "*.egg-info", "*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT, folder / "sources", ignore=made)
    run([*python("-m", "build"), "--sdist", "--no-isolation", "--outdir", folder, folder / "sources"])
    [found] = folder.glob("*.tar.gz")
    return found
