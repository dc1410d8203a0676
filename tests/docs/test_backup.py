"""docs/operations.md: its commands restore a store."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pywheel import JobQueue
from tests.docs.pages import FENCE, text
from tests.stores import servers

pytestmark = pytest.mark.stress

SECTIONS = {
    part.partition("\n")[0]: [code for kind, code in FENCE.findall(part) if kind == "bash" and "basebackup" not in code]
    for part in text("docs/operations.md").partition("\n## Checking")[0].split("\n### ")[1:]
}


def put(url, *bodies):
    with JobQueue(url) as queue:
        queue.put_many(queue.job("order.close", body, delay="1h", key=f"order-{body}") for body in bodies)


def there(url):
    with JobQueue(url, create=False) as queue:
        return sorted(job.json() for job in queue.jobs.list("order.close"))


def type_in(code, replacements, skipping=()):
    """Run a page's lines, with other places; stop at the first that fails."""
    for old, new in replacements.items():
        assert old in code
        code = code.replace(old, str(new))
    lines = [line for line in code.splitlines() if not line.startswith(tuple(skipping))]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["sh", "-ec", "\n".join(lines)]
    done = subprocess.run(
        command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (lines, done.stdout, done.stderr)


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs sqlite3: apt-get install sqlite3")
def test_each_copy_of_a_sqlite_store_brings_it_back(tmp_path):
    save, restore = SECTIONS["SQLite"]
    for name in ("srv", "backup"):
        (tmp_path / name).mkdir()
    places = {"/srv/shop": tmp_path / "srv", "/backup": tmp_path / "backup"}
    url = f"sqlite:///{tmp_path / 'srv' / 'jobs.db'}"
    put(url, 1, 2)
    type_in(save, places)
    for day in ("tuesday", "wednesday", "monday"):
        put(url, 3)
        verify = [] if day == "monday" else ["pywheel verify"]  # once will do
        type_in(restore.replace("monday", day), places, skipping=verify)
        assert there(url) == [1, 2]


def test_a_dump_of_postgresql_brings_a_store_back(postgres_server, tmp_path):
    [code] = SECTIONS["PostgreSQL"]
    with postgres_server.connect() as connection:
        connection.execute("CREATE DATABASE backup")
    url = postgres_server.url().replace("/pywheel?", "/backup?")
    libpq = url.partition("&schema=")[0]
    save, restore = code.split("pg_restore")
    put(url, 1, 2)
    type_in(save, {"postgresql://owner@db/shop": libpq, "/backup/": f"{tmp_path}/"})
    put(url, 3)
    places = {
        '="postgresql://owner@db/shop"': f'="{libpq}"',
        "/backup/": f"{tmp_path}/",
        "postgresql://shop@db/shop?schema=jobs": url,
    }
    type_in(f"pg_restore{restore}", places)
    assert there(url) == [1, 2]


def test_a_dump_of_mariadb_brings_a_store_back(mariadb_server, tmp_path):
    [code] = SECTIONS["MySQL and MariaDB"]
    if mariadb_server.is_mysql:
        pytest.skip("the page has MariaDB's tools")
    url = mariadb_server.url()
    database = url.partition("?")[0].rpartition("/")[2]
    places = {"/backup/shop.sql": tmp_path / "shop.sql"}
    root = f"--user=root --socket={mariadb_server.socket}"
    save, restore = (part.strip() for part in code.split("\nmariadb ", 1))
    put(url, 1, 2)
    save = save.replace("mariadb-dump", "mariadb-dump --no-defaults").replace(" shop ", f" {database} ")
    type_in(save, {**places, "--user=shop": root})
    put(url, 3)
    places |= {"--user=shop": f"--no-defaults {root}", "mysql://shop@db/shop": f"'{url}'"}
    type_in(f"mariadb {restore}", places)
    assert there(url) == [1, 2]


@pytest.fixture
def own_redis_server():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    yield from servers.started(servers.Redis, settings={"port": port})


def test_a_snapshot_of_redis_brings_a_store_back(own_redis_server, tmp_path):
    server = own_redis_server
    save, restore = SECTIONS["Redis and Valkey"]
    client = f"redis-cli -p {server.settings['port']}"
    url = server.url()
    put(url, 1, 2)
    bgsave, _, copy = save.splitlines()
    with server.connect() as connection:
        before = connection.lastsave()
        time.sleep(1.01)  # LASTSAVE counts in seconds
        type_in(bgsave, {"redis-cli": client})
        while connection.lastsave() == before:
            time.sleep(0.01)
    type_in(copy, {"/var/lib/redis": server.data, "/backup": tmp_path})
    put(url, 3)
    server.stop()
    shutil.copy(tmp_path / "dump.rdb", server.data / "dump.rdb")
    server.settings["appendonly"] = "no"
    server.start()
    type_in(restore, {"redis-cli": client, "redis://cache/0": f"'{url}'"}, skipping=[f"{client} CONFIG REWRITE"])
    assert there(url) == [1, 2]
