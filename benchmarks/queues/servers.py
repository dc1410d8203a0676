"""The servers that peers need: each on a free port of the loopback, with its files in a temporary folder."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

from benchmarks.queues.processes import Program

Running: TypeAlias = tuple[str, Program | None]  # what a client connects to, and the server if there is one
HOST = "127.0.0.1"
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))


class Missing(Exception):
    """A package that is not installed."""


def find(name: str, package: str) -> str:
    """Return the path of a program, or say how to install it."""
    places = os.pathsep.join([os.environ["PATH"], "/usr/sbin", *map(str, reversed(POSTGRES))])
    found = shutil.which(name, path=places)
    if found is None:
        raise Missing(f"{name} is missing: apt-get install {package}")
    return found


def version(server: str) -> str:
    """Return the server's name and version."""
    if server == "sqlite":
        return f"SQLite {sqlite3.sqlite_version}"
    program, package, option = PROGRAMS[server]
    output = subprocess.run([find(program, package), option], capture_output=True, text=True, check=True)
    return f"{program} {re.findall(r'[0-9.]+', output.stdout)[0]}"


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def wait_for(port: int, server: Program) -> None:
    for _ in range(500):
        if not server.running:
            break
        try:
            socket.create_connection((HOST, port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the server does not start:\n{server.complaint()}")


@contextmanager
def sqlite(folder: Path) -> Iterator[Running]:
    yield f"{folder}/jobs.db", None


@contextmanager
def redis(folder: Path) -> Iterator[Running]:
    port = free_port()
    durable = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    command = [find("redis-server", "redis-server"), "--bind", HOST, "--port", str(port), "--dir", folder, *durable]
    with Program(command, folder / "redis.log") as server:
        wait_for(port, server)
        yield f"redis://{HOST}:{port}/0", server


@contextmanager
def beanstalkd(folder: Path) -> Iterator[Running]:
    port = free_port()
    command = [find("beanstalkd", "beanstalkd"), "-l", HOST, "-p", str(port), "-b", folder]
    with Program(command, folder / "beanstalkd.log") as server:
        wait_for(port, server)
        yield f"{HOST}:{port}", server


@contextmanager
def postgresql(folder: Path) -> Iterator[Running]:
    """Run PostgreSQL, which refuses to run as root. A new table must not stay without statistics for a minute."""
    user = "postgres" if os.geteuid() == 0 else None
    data, port = folder / "data", free_port()
    data.mkdir(mode=0o700)
    if user:
        folder.chmod(0o711)
        shutil.chown(data, user)
    made = [find("initdb", "postgresql"), "-D", data, "-U", "bench", "--auth=trust", "--encoding=UTF8", "--no-locale"]
    subprocess.run(made, user=user, cwd=data, check=True, capture_output=True)
    command = [
        find("postgres", "postgresql"),
        "-D",
        data,
        "-h",
        HOST,
        "-p",
        str(port),
        "-k",
        "",
        "-c",
        "autovacuum_naptime=1",
    ]
    with Program(command, folder / "postgres.log", user=user, folder=data, ending=signal.SIGINT) as server:
        wait_for(port, server)
        yield f"postgresql://bench@{HOST}:{port}/postgres", server


@contextmanager
def mariadb(folder: Path) -> Iterator[Running]:
    """Run MariaDB, which has a database `test`."""
    user = "mysql" if os.geteuid() == 0 else None
    data, port = folder / "data", free_port()
    data.mkdir(mode=0o700)
    if user:
        folder.chmod(0o711)
        shutil.chown(data, user)
    install = find("mariadb-install-db", "mariadb-server")
    made = [install, "--no-defaults", "--auth-root-authentication-method=normal", f"--datadir={data}"]
    subprocess.run(made, user=user, cwd=data, check=True, capture_output=True)
    command = [
        find("mariadbd", "mariadb-server"),
        "--no-defaults",
        "--skip-log-bin",
        f"--datadir={data}",
        f"--bind-address={HOST}",
        f"--port={port}",
        f"--socket={data}/m.sock",
        f"--pid-file={data}/m.pid",
    ]
    with Program(command, folder / "mariadb.log", user=user, folder=data) as server:
        wait_for(port, server)
        yield f"mysql://root@{HOST}:{port}/test", server


PROGRAMS = {
    "redis": ("redis-server", "redis-server", "--version"),
    "beanstalkd": ("beanstalkd", "beanstalkd", "-v"),
    "postgresql": ("postgres", "postgresql", "--version"),
    "mariadb": ("mariadbd", "mariadb-server", "--version"),
}

RUN = {"sqlite": sqlite, "redis": redis, "beanstalkd": beanstalkd, "postgresql": postgresql, "mariadb": mariadb}


def run(server: str, folder: Path) -> AbstractContextManager[Running]:
    """Run a server by its name."""
    return RUN[server](folder)
