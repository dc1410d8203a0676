"""Build pywheel for every given Python, and run every test on it, each in an environment of its own.

`make pythons PYTHONS="python3.13 /opt/py314t/bin/python3"`. Packages without a wheel for a Python, as for some
free-threaded or new ones, are left out and named; their tests are skipped there.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "pythons"
NAME = 'import sys; print(f\'{sys.version_info[0]}.{sys.version_info[1]}{getattr(sys, "abiflags", "")}\')'


def name_of(python: str) -> str | None:
    """Return its version, such as 3.13t, or None if there is no such Python."""
    try:
        return subprocess.run([python, "-c", NAME], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def make(python: str, name: str, *arguments: str) -> list[str]:
    return ["make", "--no-print-directory", f"PYTHON={python}", f"VENV=.venv-{name}", *arguments]


def install(python: str, name: str, log: int) -> list[str]:
    """Install what the tests need, and return what cannot be had: of what they can do without."""
    venv = ROOT / f".venv-{name}"
    stamp = venv / "test.group"
    if stamp.exists() and stamp.stat().st_mtime > (ROOT / "pyproject.toml").stat().st_mtime:
        return stamp.read_text().splitlines()
    subprocess.run(make(python, name, f".venv-{name}/pip"), cwd=ROOT, stdout=log, stderr=log, check=True)
    pip = [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    subprocess.run([*pip, "--group", "wheels"], cwd=ROOT, stdout=log, stderr=log, check=True)
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    optional = [entry for entry in groups["drivers"] + groups["test"] if isinstance(entry, str)]
    missing = [
        entry for entry in optional if subprocess.run([*pip, entry], cwd=ROOT, stdout=log, stderr=log).returncode != 0
    ]
    stamp.write_text("".join(f"{entry}\n" for entry in missing))
    return missing


def test(python: str, name: str) -> tuple[bool, str]:
    """Return whether every test passed, and what pytest said last."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{name}.log"
    with path.open("w") as log:
        try:
            missing = install(python, name, log.fileno())
            some = os.environ.get("ARGS", "")  # of which stress may have none
            tests = make(python, name, "--keep-going", *(["test"] if some else ["test", "stress"]), f"ARGS={some}")
            passed = subprocess.run(tests, cwd=ROOT, stdout=log, stderr=log).returncode == 0
        except subprocess.CalledProcessError:
            return False, f"could not be set up: {path.relative_to(ROOT)}"
    said = [line for line in path.read_text(errors="replace").splitlines() if " passed" in line or " failed" in line]
    without = f"; without {', '.join(missing)}" if missing else ""
    return passed, (
        " and ".join(line.strip("= ") for line in said) if said else f"no test ran: {path.relative_to(ROOT)}"
    ) + without


def main(pythons: list[str]) -> int:
    """Test on each; print a table. 0 if there was one at least, and all that were there passed."""
    rows = []
    for python in pythons:
        name = name_of(python)
        if name is None:
            rows.append((python, "-", "not found"))
            continue
        print(f"==> {name}: build/pythons/{name}.log", flush=True)
        passed, said = test(python, name)
        rows.append((name, "passed" if passed else "FAILED", said))
    print()
    for name, verdict, said in rows:
        print(f"{name:12} {verdict:7} {said}")
    if all(verdict == "-" for _, verdict, _ in rows):
        print("None of them is here: CONTRIBUTING.md says where Pythons come from.")
        return 1
    return int(any(verdict == "FAILED" for _, verdict, _ in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
