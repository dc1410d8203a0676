"""Real servers, which the tests start themselves: unprivileged, on Unix sockets, each in a temporary folder.

Every process of pytest-xdist starts its own, once per session: it takes a third of a second, as data folders are copied
from those that were initialised before, in build/servers. So nobody's server dies because others kill theirs.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path
from typing import ClassVar

from tests.jobs.waiting import LIMIT, alive, until
from tests.ports import reserved_ports

__all__ = ["Missing", "Server", "find", "store_of"]

TEMPLATES = Path(__file__).parents[2] / "build" / "servers"
PLACES = ["/usr/sbin", *sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)]
STORE = re.compile(r"(schema=|prefix=|/db)\w+")  # what makes a store's address another's

# It outlives the process that started the server, however that ends, and then removes what is left. It reads the pid of
# the server, or an empty line while there is none.
WATCHDOG = """
while read -r line; do [ "$line" = end ] && break; pid=$line; done
if [ -n "$pid" ]; then kill -STOP "$pid"; kill -KILL $(cat "/proc/$pid/task/$pid/children") "$pid"; fi
rm -rf "$0"
"""


class Missing(Exception):
    """A package that is not installed; the message says how to install it."""


def find(program, package):
    """Return the path of a server's program."""
    if not sys.platform.startswith("linux"):
        raise Missing("servers are started on Linux only")
    found = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *PLACES]))
    if found is None:
        raise Missing(f"{program} is missing: apt-get install {package}")
    return found


def nobody():
    """Return arguments of Popen for a program that refuses to run as root."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def environment():
    """The environment without what would tell clients and servers where others are."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "MYSQL", "MARIADB"))}


def children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def store_of(url):
    """Return the name of the schema, the prefix or the database of a store."""
    return re.split("[=/]", STORE.search(url)[0])[-1]


class Server(ABC):
    """One server: made stopped, started by `start` or `with`. `close` ends it and removes its folder."""

    program: ClassVar[str]
    package: ClassVar[str]
    variable: ClassVar[str] = ""
    """Of the environment: the path of another program that is to be tested, if it says so."""
    driver: ClassVar[str]
    socket: Path
    """Where it listens."""
    ending: ClassVar[str] = "SIGTERM"
    """The signal by which it ends in an orderly way, while clients are connected."""
    quick: ClassVar[str] = "SIGKILL"
    """The signal by which it ends for good, its data being of no more use."""

    def __init__(self, *, fsync=False, tls=False, settings=()):
        """With `tls` it listens on a port of the loopback too, by TLS if it is asked to: `url(tls=True)`, `ca`."""
        self.path = self.located()
        try:
            import_module(self.driver)
        except ImportError as error:
            raise Missing(f"{self.driver} cannot be imported ({error}): pip install --group drivers") from error
        self.fsync = fsync
        self.tls = tls
        self.settings = dict(settings)
        """Settings of the server by name, for the next start."""
        # Paths of sockets have 107 bytes at most; pytest's temporary folders are longer.
        short = tempfile.gettempdir() if len(tempfile.gettempdir()) < 40 else "/tmp"
        self.folder = Path(tempfile.mkdtemp(prefix="pywheel-", dir=short))
        self._give(self.folder)
        self.folder.chmod(0o711)
        self.data = self.folder / "data"
        self._process = None
        self._numbers = itertools.count(1)
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            if tls:
                self._certify()
            self.initialise()
        except BaseException:
            self.close()
            raise

    @classmethod
    def located(cls):
        """Return the path of its program: what the variable says, or what is installed."""
        return os.environ.get(cls.variable) or find(cls.program, cls.package)

    # ---- what each server does in its own way ------------------------------------------------------------------------

    def initialise(self):  # noqa: B027  (some need nothing)
        """Make what it needs in its folder."""

    @abstractmethod
    def command(self):
        """Return the command line."""

    @abstractmethod
    def connect(self):
        """Return a new connection of its driver, with all rights."""

    @abstractmethod
    def url(self, via=None, **options):
        """Return the address of a fresh, empty store; by way of a proxy if one is given."""

    def run(self, *statements):
        """Run statements of SQL with all rights; return the rows of the last, None if it has none."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else None

    def again(self, url, via=None, **options):
        """Return the address of a store that another one leads to, by another way."""
        other = self.url(via=via, **options)
        return other.replace(STORE.search(other)[0], STORE.search(url)[0])

    # ---- life --------------------------------------------------------------------------------------------------------

    @property
    def pid(self):
        return self._process.pid if self._process else None

    def environment(self):
        """Return the environment of its program. A MariaDB that starts deletes the temporary tables in its TMPDIR."""
        return {**environment(), "TMPDIR": str(self.folder)}

    @property
    def running(self):
        return self._process is not None and self._process.poll() is None

    def start(self):
        """Start it, on the data that is there, and return once it answers a query."""
        assert not self.running
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **nobody(),
            )
        self._watch(str(self.pid))
        end = time.monotonic() + LIMIT
        while True:
            try:
                self.knock()  # first: PyMySQL leaves an unclosed socket where nobody listens
                self.connect().close()
            except Exception as error:
                if not self.running or time.monotonic() > end:
                    raise RuntimeError(f"{self.program} does not start ({error}):\n{self.log()}") from error
                time.sleep(0.01)
            else:
                return self

    def knock(self):
        """Raise OSError if nobody listens."""
        self.dial().close()

    def dial(self):
        """Return a socket that is connected to it."""
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(str(self.socket))
        except OSError:
            client.close()
            raise
        return client

    def stop(self):
        """End it in an orderly way; its clients lose their connections."""
        self._end(self.ending)

    def kill(self):
        """End it and its helpers by SIGKILL, as the system does when memory runs out."""
        self.pause()
        helpers = children(self.pid)
        for helper in helpers:
            os.kill(helper, signal.SIGKILL)
        self._end("SIGKILL")
        until(lambda: not any(map(alive, helpers)))  # PostgreSQL does not start while one of them still has its memory

    def pause(self):
        """Stop it and its helpers: connections stay, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self):
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def close(self):
        """End it and remove its folder. Idempotent."""
        if self._watchdog.stdin.closed:
            return
        if self.running:
            self.resume()
            self._end(self.quick)
        self._watch("end")
        self._watchdog.stdin.close()
        self._watchdog.wait()

    def log(self):
        """Return what it said, of late."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "log").read_text(errors="replace")[-4000:]
        return ""

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    def _watch(self, line):
        self._watchdog.stdin.write(f"{line}\n".encode())
        self._watchdog.stdin.flush()

    def _signal(self, number):
        os.kill(self.pid, number)  # first the one that starts helpers
        for child in children(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    def _end(self, name):
        assert self.running, self.log()
        self._process.send_signal(getattr(signal, name))
        try:
            self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._watch("")

    def version(self):
        """Return what its program says of itself."""
        return subprocess.run([self.path, "--version"], capture_output=True, text=True, check=True).stdout

    # ---- TLS ---------------------------------------------------------------------------------------------------------

    def _certify(self):
        """Make a certificate for localhost, the authority `ca` that vouches for it, and `other_ca` that does not."""
        [self.port] = reserved_ports(1)
        self.ca, self.other_ca = self.folder / "ca.pem", self.folder / "other-ca.pem"
        self.certificate, self.key = self.folder / "server.pem", self.folder / "server.key"
        made = [find("openssl", "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        made += ["-nodes", "-days", "2"]
        signed = ["-CA", self.ca, "-CAkey", self.folder / "ca.key", "-addext", "basicConstraints=critical,CA:FALSE"]
        signed += ["-addext", "subjectAltName=DNS:localhost", "-subj", "/CN=localhost"]
        for certificate, key, more in (
            (self.ca, self.folder / "ca.key", ["-subj", "/CN=tests"]),
            (self.other_ca, self.folder / "other-ca.key", ["-subj", "/CN=others"]),
            (self.certificate, self.key, signed),
        ):
            command = [*made, "-out", certificate, "-keyout", key, *more]
            subprocess.run(command, check=True, capture_output=True)
            certificate.chmod(0o644)
        self._give(self.key)

    # ---- templates ---------------------------------------------------------------------------------------------------

    def _from_template(self, *commands):
        """Fill the data folder by commands, or with what they left the last time; {data} is where, {program} this one.

        A command is a list, and what it gets as its input.
        """
        number = re.findall(r"[0-9][0-9.]*[0-9]", self.version())[0]
        template = TEMPLATES / f"{self.program}-{number}-{os.geteuid()}"
        told = "\n".join(f"{shlex.join(command)} < {given!r}" for command, given in commands)
        made_by = template / "made-by"
        if made_by.exists() and made_by.read_text() == told:
            shutil.copytree(template / "data", self.data)
            self._give(self.data)
            return
        self.data.mkdir(mode=0o700)
        self._give(self.data)
        for command, given in commands:
            filled = [part.format(data=self.data, program=self.path) for part in command]
            made = subprocess.run(
                filled,
                input=given,
                cwd=self.folder,
                env=Server.environment(self),
                capture_output=True,
                text=True,
                **nobody(),
            )
            if made.returncode:
                raise RuntimeError(f"{shlex.join(filled)}:\n{made.stdout}{made.stderr}")
        with contextlib.suppress(OSError):  # a read-only checkout
            self._keep(template, told)

    def _keep(self, template, told):
        template.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=template.parent))
        shutil.copytree(self.data, new / "data")
        (new / "made-by").write_text(told)
        shutil.rmtree(template, ignore_errors=True)
        try:
            new.rename(template)
        except OSError:  # another process was sooner
            shutil.rmtree(new)

    def _give(self, path):
        """Make the server's user the owner of a file or folder, and of what is in it."""
        if os.geteuid() == 0:
            for each in (path, *path.rglob("*")):
                shutil.chown(each, "nobody", "nogroup")
