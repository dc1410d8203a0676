"""A release without the publishing: ``python -m tests.packaging.dry_run [PYTHON...]``, behind `make release-check`.

It builds the sdist as the workflow does, then for each Python a wheel from it, installs that into an empty environment
with all extras, runs it, lets pip check the installation, and prints a table. It exits with 1 if any of it failed.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from tests.packaging.test_install import SMOKE
from tests.packaging.tools import python, run, sdist_of_a_copy

SECONDS = "import pywheel, pywheel.client, pywheel.worker; print(pywheel.__version__)"


def sdist(folder: Path) -> Path:
    """Return the sdist of a clean copy of the sources, after twine has looked at it."""
    found = sdist_of_a_copy(folder)
    run([*python("-m", "twine"), "check", "--strict", found])
    with tarfile.open(found) as content:
        print(f"{found.name}: {found.stat().st_size >> 10} kB, {len(content.getnames())} names", flush=True)
    return found


def tried(name: str, source: Path, folder: Path) -> str:
    """Return what became of one Python's wheel, as a row of the table; AssertionError if something is wrong with it."""
    began = time.monotonic()
    folder.mkdir()
    run([name, "-m", "venv", folder / "env"])
    own = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    build = [own, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, source]
    run(build, PYWHEEL_REQUIRE_NATIVE="1")
    [wheel] = folder.glob("*.whl")
    run([*python("-m", "twine"), "check", "--strict", wheel])
    extras = "[all]"
    code, said = run([own, "-m", "pip", "install", "--only-binary", ":all:", f"{wheel}[all]"], check=False)
    if code:  # something that it may need has no wheel for this Python
        extras = "without extras: " + next((line for line in said.splitlines() if "ERROR" in line), "?")[:70]
        run([own, "-m", "pip", "install", wheel])
    smoke = run([own, "-c", SMOKE]).split()[0]
    version = run([own, "-c", SECONDS]).strip()
    checked = run([own, "-m", "pip", "check"]).strip()
    size = wheel.stat().st_size >> 10
    seconds = time.monotonic() - began
    return f"{wheel.name.split('-')[2]:6} {version:8} {smoke:7} {size:6} kB  {checked:30} {extras}  ({seconds:.0f} s)"


def main() -> None:
    """Try every Python that was named, or this one."""
    failed = False
    with tempfile.TemporaryDirectory(prefix="pywheel-release-") as place:
        source = sdist(Path(place))
        for number, name in enumerate(sys.argv[1:] or [sys.executable]):
            found = shutil.which(name)
            if found is None:
                print(f"{name}: not here", flush=True)
                continue
            try:
                print(tried(found, source, Path(place) / str(number)), flush=True)
            except AssertionError as error:
                failed = True
                print(f"{name}: FAILED\n{str(error)[-2000:]}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
