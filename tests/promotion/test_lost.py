"""A replica that no commit waits for takes over: the last commits are lost, and nothing else is wrong."""

import contextlib
import threading
import time

from pywheel import Fixed, JobQueue, StoreError, Worker
from pywheel.jobs import State
from tests.jobs.waiting import until

SOME = 40


class Books:
    """What a program puts one after the other, and what its worker handles; jobs are known by a number."""

    def __init__(self, queue):
        self.queue = queue
        self.told, self.handled, self.early = [], set(), []
        self._over = threading.Event()
        queue.handler("t", ttr=3, retry=Fixed(0.05, attempts=100))(self._handle)
        self._worker, self._putter = Worker(queue), threading.Thread(target=self._put)

    def __enter__(self):
        self._worker.start()
        self._putter.start()
        return self

    def __exit__(self, *_):
        self.end()
        self._worker.stop()
        self._worker.join()

    def end(self):
        """Put no more."""
        self._over.set()
        self._putter.join()

    def _handle(self, job):
        if time.time() * 1000 + 1 < job.due:
            self.early.append(job)
        self.handled.add(job.json())

    def _put(self):
        number = 0
        while not self._over.is_set():
            number += 1
            with contextlib.suppress(StoreError):
                self.queue.put("t", number, delay=0.2)
                self.told.append(number)
            time.sleep(0.005)

    def more(self):
        """Return once some more were put, and some more handled."""
        told, handled = len(self.told), len(self.handled)
        until(lambda: len(self.told) > told + SOME and len(self.handled) > handled + SOME)
        return self.told[-1]


def test_the_last_commits_are_lost_and_nothing_else(pair):
    with JobQueue(pair.url()) as queue, Books(queue) as books:
        before = books.more()
        pair.hold()
        held = books.more()
        pair.lose()
        pair.fail_over()
        switched = books.told[-1]
        books.more()
        books.end()
        jobs = {}
        until(lambda: not any(count.delayed or count.running for count in queue.topics.counts().values()))
        for job in queue.jobs.list(limit=10**6):
            assert job.json() not in jobs, "put twice"
            jobs[job.json()] = job
        lost = [number for number in books.told if number not in jobs]
        print(f"{len(books.told)} were told; lost are {len(lost)}, {lost[:1]} to {lost[-1:]}; held {before} to {held}")
        assert held in lost, "nothing was held"
        assert lost == [number for number in books.told if lost[0] <= number <= lost[-1]]
        assert lost[-1] <= switched
        assert {job.state for job in jobs.values()} == {State.DONE}
        assert jobs.keys() <= books.handled
        assert books.early == []
        assert queue.store.verify() == []
