"""A store that is closed, or whose file is taken away, under its worker: the worker ends, and says why."""

import contextlib
import logging
import os
import threading
import time

import pytest

from pywheel import JobQueue, StoreClosed, StoreReplaced, Worker
from tests.jobs.waiting import finished, until
from tests.worker.held import Held


@pytest.fixture
def path(tmp_path):
    if os.name == "nt":
        pytest.skip("files that are open cannot be deleted there")
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


# ---- a queue that is closed ------------------------------------------------------------------------------------------

PUTTERS, ROUNDS = 4, 10


@pytest.mark.stress
def test_every_put_gets_a_result_or_closed_and_the_worker_ends_with_a_line_in_the_log(tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/jobs.db"
    told, ran = [], []

    def handle(job):
        ran.append(job.id)
        time.sleep(0.001)

    def put(queue):
        with contextlib.suppress(StoreClosed):
            while True:
                told.append(queue.put("t", b"x"))

    for _ in range(ROUNDS):
        queue = JobQueue(url)
        queue.handler("t", concurrency=4)(handle)
        worker = Worker(queue, grace=1)
        worker.start()
        threads = [threading.Thread(target=put, args=(queue,)) for _ in range(PUTTERS)]
        puts, runs = len(told) + 20, len(ran) + 10
        for thread in threads:
            thread.start()
        until(lambda: len(told) >= puts and len(ran) >= runs)  # noqa: B023
        queue.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert worker.join(60)
        worker.stop()
        worker.stop()
    with JobQueue(url) as queue:
        assert sum(queue.topics.counts()["t"]) == len(told) == len(set(told))
    assert set(ran) <= set(told)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(lines) == ROUNDS
    assert all(line.startswith("the worker ends: ") and "stop it before you close its queue" in line for line in lines)


@pytest.mark.parametrize("stops", [False, True])
def test_a_worker_that_waits_ends_too(live_queue, monkeypatch, caplog, stops):
    done, sleeping = threading.Event(), threading.Event()
    live_queue.handler("t")(lambda job: done.set())
    worker = Worker(live_queue, grace=1)
    wait = worker._notifier.wait

    def waiting(seconds):
        if done.is_set() and seconds > 0.1:
            sleeping.set()
        return wait(seconds)

    monkeypatch.setattr(worker._notifier, "wait", waiting)
    worker.start()
    live_queue.put("t")
    assert done.wait(60)
    assert sleeping.wait(60)
    if stops:
        worker.stop()
    live_queue.close()
    assert worker.join(60)
    said = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert said == ([] if stops else ["the worker ends"])
