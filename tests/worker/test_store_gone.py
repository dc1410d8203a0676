"""A store whose file is taken away under its worker: the worker ends, and says why."""

import logging
import os
import threading

import pytest

from pywheel import JobQueue, StoreReplaced, Worker
from tests.jobs.waiting import finished, until
from tests.worker.held import Held

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files that are open cannot be deleted there")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def queue(path):
    with JobQueue(f"sqlite:///{path}") as queue:
        yield queue


class Run:
    """A worker in a thread, and what it raises."""

    def __init__(self, queue):
        self.worker = Worker(queue, grace=600)
        self.dispatcher = self.worker.dispatcher
        self.error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self.worker.run()
        except StoreReplaced as error:
            self.error = error

    @property
    def over(self):
        return not self._thread.is_alive()

    def raises(self):
        """Return the error with which it ends."""
        until(lambda: self.over)
        return str(self.error)


def delete(path):
    path.unlink()


def replace(path):
    new = path.with_name("new.db")
    JobQueue(f"sqlite:///{new}").close()
    new.rename(path)


def delete_all(path):
    for file in path.parent.iterdir():
        file.unlink()


def replace_log(path):
    log = path.with_name(f"{path.name}-wal")
    new = path.with_name("new")
    new.write_bytes(log.read_bytes())
    new.rename(log)


GONE = [
    (delete, "jobs.db was deleted"),
    (replace, "jobs.db was replaced"),
    (delete_all, "jobs.db was deleted"),
    (lambda path: delete(path.with_name("jobs.db-wal")), "jobs.db-wal was deleted"),
    (replace_log, "jobs.db-wal was replaced"),
    (lambda path: delete(path.with_name("jobs.db-shm")), "jobs.db-shm was deleted"),
]


@pytest.mark.parametrize(("take_away", "said"), GONE)
def test_an_idle_worker_whose_store_is_gone_ends_with_that_error(queue, path, take_away, said):
    queue.handler("t")(print)
    run = Run(queue)
    finished(queue, queue.put("t"))
    take_away(path)
    assert said in run.raises()


@pytest.fixture
def held(queue):
    held = Held(queue, "t")
    yield held
    held.let_go()


@pytest.fixture
def run(queue, held):
    """The run of a worker whose handler goes on until it may end."""
    run = Run(queue)
    queue.put("t")
    until(lambda: held.begun)
    return run


@pytest.mark.parametrize("ended", ["by the handler", "by a stop"])
def test_handlers_of_a_worker_whose_store_is_gone_get_their_grace_until_a_stop(run, held, path, ended):
    path.unlink()
    until(lambda: run.dispatcher.draining)
    assert not run.over
    held.let_go() if ended == "by the handler" else run.worker.stop()
    assert "jobs.db was deleted" in run.raises()


def test_a_stop_ends_the_grace_as_soon_as_a_worker_whose_store_is_gone_drains(run, path, monkeypatch):
    drain = run.dispatcher.drain

    def drained():
        drain()
        run.worker.stop()

    monkeypatch.setattr(run.dispatcher, "drain", drained)
    path.unlink()
    assert "jobs.db was deleted" in run.raises()


def test_a_worker_in_a_thread_says_once_that_its_store_is_gone(queue, path, caplog):
    queue.handler("t")(print)
    worker = Worker(queue, grace=60)
    with caplog.at_level(logging.WARNING):
        worker.start()
        finished(queue, queue.put("t"))
        path.unlink()
        assert worker.join(60)
    [record] = caplog.records
    assert record.getMessage().startswith(f"the worker ends: {path} was deleted")
    assert record.exc_info is None


def test_a_store_that_is_gone_while_its_worker_drains_is_said_too(run, held, path):
    run.worker.stop()
    until(lambda: run.dispatcher.draining)
    path.unlink()
    until(lambda: run.dispatcher._completer.alone)
    assert not run.over
    held.let_go()
    assert "jobs.db was deleted" in run.raises()
