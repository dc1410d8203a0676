"""Takes a store as a pywheel makes it: `python -m tests.stores.older.take SRC KIND NAME [OPTION=VALUE...]`.

SRC holds that pywheel, without native code; what it makes stands in `stores/NAME.json`. Before a migration is added, or
another layout on Redis, one of each is taken with the pywheel before it.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

from tests.stores.older.dumps import DUMPS
from tests.stores.older.fill import plain
from tests.stores.servers import KINDS

STORES = Path(__file__).with_name("stores")
FOLDERS = {"mariadb": "mysql"}
_RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); import runpy; runpy.run_path(sys.argv.pop(1), {}, '__main__')"


def filled(src, url):
    """Fill a new store with this pywheel; return what it reads."""
    script = str(Path(__file__).with_name("fill.py"))
    # -S: an editable install would come first. What drivers need is found all the same.
    packages = [path for path in sys.path if path.endswith("site-packages")]
    environment = {**os.environ, "PYWHEEL_PURE": "1", "PYTHONPATH": os.pathsep.join(packages)}
    ran = subprocess.run([sys.executable, "-S", "-c", _RUN, src, script, url], env=environment, stdout=-1, check=True)
    return json.loads(ran.stdout)


def migrations(src, kind):
    """Return hashes of the migrations that this pywheel has for a store."""
    folder = Path(src) / "pywheel" / "stores" / FOLDERS.get(kind, kind) / "sql" / "migrations"
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob("*.sql"))}


def main(src, kind, name, *options):
    with tempfile.TemporaryDirectory() as folder, KINDS[kind]() if kind in KINDS else nullcontext() as server:
        more = dict(option.split("=") for option in options)
        url = f"sqlite:///{folder}/jobs.db" if server is None else server.url(**more)
        read = filled(src, url)
        dump = DUMPS[kind](server, url).take()
    whole = {"migrations": migrations(src, kind), "read": read, "dump": dump}
    text = json.dumps(whole, default=plain, indent=0, separators=(",", ":"))
    (STORES / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
