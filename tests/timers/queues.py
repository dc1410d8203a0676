"""What the tests of delay queues share."""

import asyncio
import queue
from types import SimpleNamespace

from tests.jobs.waiting import until
from tests.timers.crowd import Crowd


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
    """Return a crowd in which each function runs, so many times in all, once all of them wait for the queue."""
    crowd = Crowd()
    crowd.start()
    for number in range(how_many):
        crowd.add(functions[number % len(functions)])
        until(lambda: q.sleepers() == number + 1 - crowd.done())  # noqa: B023 - called at once
    assert crowd.done() == 0
    return crowd


# ---- asyncio -------------------------------------------------------------------------------------------------------


def runner(name):
    """Return a function that runs a coroutine function on a new loop of that name; it has a minute."""
    factory = __import__("uvloop").new_event_loop if name == "uvloop" else asyncio.new_event_loop

    def run(main, *arguments):
        async def in_time():
            async with asyncio.timeout(60):
                return await main(*arguments)

        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(in_time())

    return run


async def settle():
    """Let everybody go on who can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def start(how_many, function, *arguments):
    """Return so many tasks, each of which waits."""
    tasks = [asyncio.create_task(function(*arguments)) for _ in range(how_many)]
    await settle()
    assert not any(task.done() for task in tasks)
    return tasks


def done(tasks):
    """Return the results of those that are done."""
    return [task.result() for task in tasks if task.done()]
