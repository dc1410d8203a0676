"""The floor: methods with the wheel's signatures that do nothing, compiled on first use into build/empty_call."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.timers.peers.wheels import Keys, Wheel

SOURCE = Path(__file__).with_name("_empty_call.pyx")
BUILD = Path(__file__).parents[3] / "build" / "empty_call"


def available() -> bool:
    """Is there a compiler to make it with?"""
    try:
        load()
    except (subprocess.CalledProcessError, ImportError, OSError):
        return False
    return True


@cache
def load() -> Any:
    """Return the compiled module; CalledProcessError if it cannot be made."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    library = BUILD / f"_empty_call{suffix}"
    if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        copy = shutil.copy(SOURCE, BUILD)
        command = [sys.executable, "-m", "Cython.Build.Cythonize", "--inplace", "--force", str(copy)]
        subprocess.run(command, check=True, cwd=BUILD, stdout=subprocess.DEVNULL)
    loader = importlib.machinery.ExtensionFileLoader("_empty_call", str(library))
    spec = importlib.util.spec_from_file_location("_empty_call", library, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class EmptyCall(Wheel):
    """TimingWheel's calls, empty."""

    @property
    def kind(self) -> Any:
        return load().Floor


class EmptyKeyCall(Keys):
    """KeyWheel's calls, empty."""

    @property
    def kind(self) -> Any:
        return load().KeyFloor
