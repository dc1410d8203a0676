"""Run Python in a process of its own, with the switches of this run taken out of its environment."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


def environment(**variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYWHEEL_")}
    for name in ("PYWHEEL_SANITIZE", "PYWHEEL_SKIP_VARIANTS"):
        if name in os.environ:
            inherited[name] = os.environ[name]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**inherited, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", **variables}


def run(*arguments: str, timeout: float = 120, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the interpreter; the caller judges the result."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(**variables),
        cwd=HERE,  # where no package of ours lies
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def run_well(*arguments: str, timeout: float = 120, **variables: str) -> str:
    """Run the interpreter; it must succeed and have nothing to complain about. Return what it printed."""
    result = run(*arguments, timeout=timeout, **variables)
    assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert result.stderr == "", result.stderr
    return result.stdout


def script(name: str) -> str:
    return str(HERE / name)
