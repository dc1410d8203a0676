"""The common helpers of the tests of delay queues."""

import asyncio
import queue
from functools import partial
from types import SimpleNamespace

from tests.jobs.waiting import until
from tests.timers.crowd import Crowd
from tests.timers.loops import make_loop


def words(pywheel, kind):
    """Return a class of queues and what it raises."""
    if kind == "DelayQueue":
        return SimpleNamespace(Queue=pywheel.DelayQueue, Empty=queue.Empty, Full=queue.Full, ShutDown=pywheel.ShutDown)
    return SimpleNamespace(
        Queue=pywheel.AsyncDelayQueue, Empty=asyncio.QueueEmpty, Full=asyncio.QueueFull, ShutDown=pywheel.QueueShutDown
    )


# ---- threads -------------------------------------------------------------------------------------------------------


def watched(pywheel):
    """Return a DelayQueue class that counts how many threads are asleep, and how often one fell asleep."""

    class Watched(pywheel.DelayQueue):
        asleep = naps = 0

        def _sleep(self, condition, until):
            self.naps += 1
            self.asleep += 1
            try:
                super()._sleep(condition, until)
            finally:
                self.asleep -= 1

        def sleepers(self):
            with self._lock:  # so that those who are about to fall asleep do
                return self.asleep

    return Watched


def waiting(q, how_many, *functions):
    """Return a crowd that runs each function, `how_many` calls in all, once all calls wait for the queue."""
    crowd = Crowd()
    crowd.start()
    for number in range(how_many):
        crowd.add(functions[number % len(functions)])
        until(lambda: q.sleepers() == number + 1 - crowd.done())  # noqa: B023 - called at once
    assert crowd.done() == 0
    return crowd


class Threads:
    """Has threads wait for DelayQueues."""

    def __init__(self, pywheel):
        self.make, self.ShutDown = partial(_made, watched(pywheel)), pywheel.ShutDown
        self.start = ThreadsThatWait

    def do(self, function, *arguments):
        """Call a function."""
        return function(*arguments)

    call = do  # one that may wait

    def close(self):
        """Leave nothing: the threads have ended."""


class ThreadsThatWait:
    """`how_many` threads, each of which waits in a method of a queue."""

    def __init__(self, q, how_many, name, *arguments):
        self.q, self.how_many, self.joins = q, how_many, name == "join"
        function = partial(getattr(q, name), *arguments)
        if self.joins:
            self.crowd = Crowd()
            self.crowd.start()
            for _ in range(how_many):
                self.crowd.add(function)
            until(lambda: len(q._joiners._waiters) == how_many)
        else:
            self.crowd = waiting(q, how_many, function)
        self.naps = q.naps

    def reach(self, number):
        """Wait until `number` threads have their results, and the others wait; return the results."""
        until(lambda: self.crowd.done() == number and (self.joins or self.q.sleepers() == self.how_many - number))
        return list(self.crowd.results.values())

    def in_vain(self):
        """Return how often one of them woke and had to wait again."""
        return self.q.naps - self.naps

    def join(self):
        """Wait for all; return what they have, or what was raised."""
        return self.crowd.join()


# ---- asyncio -------------------------------------------------------------------------------------------------------


def watched_by_tasks(pywheel):
    """Return an AsyncDelayQueue class that counts how often a task looked for an item."""

    class Watched(pywheel.AsyncDelayQueue):
        looks = 0

        def _take(self):
            self.looks += 1
            return super()._take()

    return Watched


class Tasks:
    """Has tasks wait for AsyncDelayQueues, in a loop of its own."""

    def __init__(self, pywheel, name):
        self.loop = make_loop(pywheel, name)
        self.make, self.ShutDown = partial(_made, watched_by_tasks(pywheel)), pywheel.QueueShutDown
        self.start = partial(TasksThatWait, self)

    def run(self, coroutine):
        """Run a coroutine in the loop; it has a minute."""
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 60))

    def do(self, function, *arguments):
        """Call a function in the loop."""

        async def main():
            return function(*arguments)

        return self.run(main())

    def call(self, method, *arguments):
        """Call one that may wait."""
        return self.run(method(*arguments))

    def close(self):
        """Close the loop."""
        self.loop.close()


class TasksThatWait:
    """`how_many` tasks, each of which waits in a method of a queue."""

    def __init__(self, at, q, how_many, name, *arguments):
        self.at, self.q = at, q
        self.tasks = [at.loop.create_task(getattr(q, name)(*arguments)) for _ in range(how_many)]
        self.reach(0)
        self.looks = q.looks

    def reach(self, number):
        self.at.run(settle())
        assert len(done(self.tasks)) == number
        return done(self.tasks)

    def in_vain(self):
        return self.q.looks - self.looks - len(done(self.tasks))

    def join(self):
        async def main():
            return await asyncio.gather(*self.tasks, return_exceptions=True)

        return self.at.run(main())


def _made(kind, maxsize=0, clock=None):
    return kind(maxsize, clock=clock)


async def settle():
    """Let everybody go on who can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def start(how_many, function, *arguments):
    """Return `how_many` tasks, each of which waits."""
    tasks = [asyncio.create_task(function(*arguments)) for _ in range(how_many)]
    await settle()
    assert not any(task.done() for task in tasks)
    return tasks


def done(tasks):
    """Return the results of those that are done."""
    return [task.result() for task in tasks if task.done()]
