"""Run Python in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


UNSET = {"PYWHEEL_PURE": None, "PYWHEEL_REQUIRE_NATIVE": None}  # whatever this run was started with
COUNT_WARNINGS = """
import importlib, warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import pywheel
    import pywheel.core
    from pywheel import TimingWheel
    importlib.import_module("pywheel.core._pure")
print(pywheel.implementation, [f"{warning.category.__name__}: {warning.message}" for warning in seen], flush=True)
"""


def environment(**variables: str | None) -> dict[str, str]:
    """Return the environment of this process with some variables changed, or, if None, unset."""
    inherited = [ROOT, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    path = os.pathsep.join(str(Path(entry).absolute()) for entry in inherited)
    changed = {**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", **variables}
    return {name: value for name, value in changed.items() if value is not None}


def run(
    *arguments: str, cwd: Path = HERE, timeout: float = 240, **variables: str | None
) -> subprocess.CompletedProcess[str]:
    """Run the interpreter, by default where no package of ours lies; the caller judges the result."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(**variables),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def run_well(*arguments: str, cwd: Path = HERE, timeout: float = 240, **variables: str | None) -> str:
    """Run the interpreter; it must succeed and have nothing to complain about. Return what it printed."""
    result = run(*arguments, cwd=cwd, timeout=timeout, **variables)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert result.stderr == "", result.stderr
    return result.stdout


def script(name: str) -> str:
    return str(HERE / name)


def on(implementation: str) -> dict[str, str]:
    """Return the switches with which a process has that implementation."""
    return {"PYWHEEL_PURE": "1" if implementation == "pure" else "", "PYWHEEL_REQUIRE_NATIVE": ""}
