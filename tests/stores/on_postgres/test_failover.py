"""A standby that is promoted while a primary dies: nothing that was told is lost, and workers go on there."""

import contextlib
import shutil
import signal
import subprocess
import threading
import time

import pytest

from pywheel import Fixed, JobQueue, StoreError, Worker
from pywheel.jobs import Outcome, State
from tests.jobs.waiting import until
from tests.stores.server import environment, find, nobody
from tests.stores.servers import Postgres, started


class Standby:
    """A hot standby of a server; each commit waits for it from `begin` until it is promoted."""

    def __init__(self, primary):
        self.data, self.folder = primary.folder / "standby", primary.folder / "standby-socket"
        for folder in (self.data, self.folder):
            folder.mkdir(mode=0o700)
            if nobody():
                shutil.chown(folder, "nobody", "nogroup")
        self.folder.chmod(0o711)
        self._primary = primary
        self._process = None

    def begin(self):
        access = self._primary.data / "pg_hba.conf"
        access.write_text(f"local replication pywheel trust\n{access.read_text()}")
        with self._primary.connect() as connection:
            connection.execute("SELECT pg_reload_conf()")
            until(self._copied)
            settings = {"unix_socket_directories": self.folder, "listen_addresses": "", "fsync": "off"}
            settings |= {"max_connections": 200}
            given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            self._process = self._run("postgres", "-D", self.data, *given)
            until(lambda: connection.execute("SELECT count(*) FROM pg_stat_replication").fetchone()[0])
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")

    def _copied(self):
        place = ["-h", self._primary.folder, "-p", self._primary.port, "-U", "pywheel"]
        return not self._run("pg_basebackup", *place, "-D", self.data, "-R", "-c", "fast", "--no-sync").wait(60)

    def promote(self):
        assert self._run("pg_ctl", "promote", "-w", "-D", self.data).wait(60) == 0
        with self._primary.connect(host=str(self.folder)) as connection:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")

    def end(self):
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)

    def _run(self, program, *arguments):
        command = [find(program, "postgresql"), *map(str, arguments)]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(), **nobody()
        )


@pytest.fixture
def primary():
    yield from started(Postgres)


@pytest.fixture
def standby(primary):
    standby = Standby(primary)
    try:
        standby.begin()
        yield standby
    finally:
        standby.end()


def test_what_was_told_is_done_once_on_the_standby_that_was_promoted(primary, standby):
    hosts = {"host": f"{primary.folder},{standby.folder}", "port": f"{primary.port},{primary.port}"}
    url = primary.url(**hosts, target_session_attrs="read-write")
    told, starts, over = [], [], threading.Event()
    with JobQueue(url) as queue:

        @queue.handler("t", ttr=3, retry=Fixed(0.05, attempts=100))
        def handle(job):
            starts.append((job.id, job.claims))

        def put():
            while not over.is_set():
                with contextlib.suppress(StoreError):
                    told.append(queue.put("t", delay=0.2))
                time.sleep(0.005)

        worker, producer = Worker(queue), threading.Thread(target=put)
        worker.start()
        producer.start()
        until(lambda: len(starts) > 50)
        primary.kill()
        standby.promote()
        before = len(told)
        until(lambda: len(told) > before + 50)
        over.set()
        producer.join()
        until(lambda: {queue.get(id).state for id in told} == {State.DONE})
        assert len(set(starts)) == len(starts)
        for id in told:
            again = sum(row.outcome in (Outcome.LOST, Outcome.FAILED) for row in queue.jobs.history(id))
            assert sum(started == id for started, _ in starts) <= 1 + again
        assert queue.store.verify() == []
        worker.stop()
        worker.join()
