"""The native sources built once more with other compile-time limits, kept in build/variants for the next run."""

import hashlib
import importlib.util
import os
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

from tests.real_time import for_all

ROOT = Path(__file__).resolve().parents[2]
BUILDS = ROOT / "build" / "variants"
NAME = "pywheel.core._wheel"

_BUILD = """
import json, runpy, sys
from pathlib import Path
build = runpy.run_path(sys.argv[1])["build"]
print(build(Path(sys.argv[2]), json.loads(sys.argv[3])))
"""


def build_variant(name: str, macros: dict[str, int]) -> ModuleType:
    """Return the extension compiled with `macros` defined, as a module of its own beside the installed one."""
    return _load(_built(name, tuple(sorted(macros.items()))))


@cache
def _load(library: Path) -> ModuleType:
    """Import by path, under the name it was compiled for: sys.modules keeps the installed one."""
    importlib.import_module(NAME)  # first, or the variant would take its name

    loader = ExtensionFileLoader(NAME, str(library))
    spec = importlib.util.spec_from_file_location(NAME, library, loader=loader)
    installed = {name: sys.modules.get(name) for name in (NAME, "pywheel.core")}
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    assert {name: sys.modules.get(name) for name in installed} == installed, "a variant took the installed one's place"
    return module


@cache
def _built(name: str, macros: tuple[tuple[str, int], ...]) -> Path:
    folder = BUILDS / f"{name}-{_fingerprint(macros)}"
    BUILDS.mkdir(parents=True, exist_ok=True)
    with _alone(name):
        if not folder.exists():
            for stale in BUILDS.glob(f"{name}-*"):
                shutil.rmtree(stale, ignore_errors=True)
            with for_all(), tempfile.TemporaryDirectory(dir=BUILDS) as scratch:
                library = _compile(Path(scratch), macros)
                (Path(scratch) / "module").mkdir()
                shutil.copy(library, Path(scratch) / "module")
                (Path(scratch) / "module").replace(folder)
    return next(folder.iterdir())


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Let one process build while the others wait for what it built. SQLite's lock goes with its process, anywhere."""
    with closing(sqlite3.connect(BUILDS / f"lock.{name}", timeout=600)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


def _compile(folder: Path, macros: tuple[tuple[str, int], ...]) -> Path:
    import json

    values = json.dumps({macro: str(value) for macro, value in macros})
    command = [sys.executable, "-c", _BUILD, str(ROOT / "setup.py"), str(folder), values]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, f"the variant does not compile:\n{result.stdout}\n{result.stderr}"
    return Path(result.stdout.splitlines()[-1])


def _fingerprint(macros: tuple[tuple[str, int], ...]) -> str:
    """Change with whatever changes the binary."""
    digest = hashlib.sha256(repr((macros, sys.version, sysconfig.get_config_var("EXT_SUFFIX"))).encode())
    digest.update(os.environ.get("PYWHEEL_SANITIZE", "").encode())
    sources = (path for path in (ROOT / "src" / "wheel").rglob("*") if path.is_file())
    for source in [ROOT / "setup.py", *sorted(sources)]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
