"""Calls of the system that a child process makes: recorded in their order, or one of them failing."""

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import pytest

from tests.isolated.child import run_well

HERE = Path(__file__).parent
HEAD = Struct("=c3xIQQ")  # as calls.c has it

needs_preload = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("gcc") is None, reason="a library to preload is built by gcc"
)


class Call(NamedTuple):
    """One call that succeeded."""

    kind: str  # a letter of calls.c
    path: str
    offset: int  # or the size, of what was truncated
    data: bytes  # or the other name


@functools.cache
def library(name="calls"):
    """Return the path of a library to preload, built once in a process; everybody may read it."""
    folder = Path(tempfile.mkdtemp(prefix=name))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    path = f"{folder}/{name}.so"
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", path, HERE / f"{name}.c", "-ldl"],
        check=True,
    )
    return path


def run_child(name, *arguments):
    """Run a program of this folder with the library; return what it printed."""
    return run_well(str(HERE / name), *map(str, arguments), timeout=1_000, LD_PRELOAD=library())


def recorded(log):
    """Yield the calls of a log."""
    data = memoryview(Path(log).read_bytes())
    at = 0
    while at < len(data):
        kind, path, offset, size = HEAD.unpack_from(data, at)
        at += HEAD.size
        name, at = bytes(data[at : at + path]).decode(), at + path
        yield Call(kind.decode(), name, offset, bytes(data[at : at + size]))
        at += size
