"""A worker in the simulated world: a real dispatcher, with pools that have no threads."""

from datetime import timedelta

from pywheel import JobQueue, ManualClock, StoreError
from pywheel.events import Events
from pywheel.stores import open as open_store
from pywheel.testing import FaultyStore
from pywheel.worker.dispatcher import Dispatcher
from pywheel.worker.executors.pool import Pool, Runner

__all__ = ["NOW", "CalmWorld", "Killed", "SimulatedWorker"]

NOW = 1_700_000_000_000

LONGEST = 1.0  # seconds that a worker sleeps at most


class Killed(BaseException):
    """A handler ended its process."""


class StillPool(Pool):
    """A pool without threads: a handler that starts ends when the world's clock says so."""

    def __init__(self, handler, outside, world, worker):
        super().__init__(handler, outside, worker.runner)
        self.world = world
        self.worker = worker
        self.running = {}  # lease: when it ends, by the monotonic clock

    @property
    def free(self):
        return self.handler.concurrency - len(self.running)

    def feed(self, leases):
        self.world.claimed([lease.job for lease in leases])
        self._queue.extend(leases)
        self.start()

    def start(self):
        while self._queue and self.free > 0 and not self.worker.is_blocked:
            lease = self._queue.popleft()
            if self._starts(lease):
                self.running[lease] = self._clock.time() + self.world.started(lease, self.worker)

    def end(self):
        if self.running:
            now = self._clock.time()
            for lease in [lease for lease, end in self.running.items() if end <= now]:
                del self.running[lease]
                lease.error = ValueError("boom") if self.world.fails() else None
                self.world.ended(lease)
                self._ended(lease)
        self.start()


class SimulatedWorker:
    """A dispatcher, and what the world does to it."""

    def __init__(self, world, topics, concurrency=None):
        self.world = world
        self.paused = set()  # the topics that it knows to be paused
        handlers = {topic: world.queue.handlers[topic] for topic in topics}
        self.notifier = world.store.notifier("w")
        self.runner = Runner()
        self.dispatcher = Dispatcher(
            world.store,
            self.notifier,
            handlers,
            lambda handler, outside: StillPool(handler, outside, world, self),
            Events(),
            concurrency=concurrency,
        )
        self.topics = topics
        self.announced = False
        self.stopped_until = 0.0
        self.blocked_until = 0.0  # its handlers keep it from starting others
        self.asleep_until = 0.0
        self.draining = False

    @property
    def is_stopped(self):
        return self.world.clock.time() < self.stopped_until

    @property
    def is_blocked(self):
        return self.world.clock.time() < self.blocked_until

    def turn(self):
        """Work until there is nothing to do at this moment, unless it sleeps and nobody wakes it."""
        if self.is_stopped:
            return
        self.runner.blocked &= self.is_blocked
        if self.sleeps():
            return
        self.asleep_until = 0.0
        for _ in range(20):
            if not self.announced:
                try:
                    self.dispatcher.announce()
                    self.announced = True
                except StoreError:
                    return
            self.listen()
            if not self.dispatcher.step():
                self.world.troubled()
                return
            self.paused = set(self.world.paused)
            timeout = self.dispatcher.timeout()
            if timeout > 0:
                self.asleep_until = self.world.clock.time() + min(timeout, LONGEST)
                return

    def sleeps(self):
        """Whether it goes on sleeping, as it would in `Dispatcher.sleep`."""
        if self.world.clock.time() >= self.asleep_until or not self.announced:
            return False
        self.listen()
        dispatcher = self.dispatcher
        return not (dispatcher._rung or len(dispatcher._completer))

    def listen(self):
        """Hear what woke it, and let handlers end."""
        self.dispatcher._rung |= self.notifier.wait(0)
        self.let_handlers_end()

    def let_handlers_end(self):
        for topic in self.dispatcher.topics.values():
            topic.pool.end()

    def has_room(self, topic):
        there = self.announced and not self.draining and not self.is_stopped and not self.is_blocked
        return there and topic in self.topics and self.dispatcher.topics[topic].pool.free > 0

    def unstarted(self):
        """Return the claims that wait in its pools."""
        return [lease for lease in self.dispatcher._leases if lease.started is None and not lease.ended]

    def drain(self):
        self.draining = True
        self.dispatcher.drain()
        self.announced = False


class CalmWorld:
    """The world of a simulated worker, without faults; handlers take `takes` seconds."""

    def __init__(self, url="memory:", fault=None):
        self.clock = ManualClock(wall=NOW)
        store = open_store(url, clock=self.clock)
        self.queue = JobQueue(FaultyStore(store, fault) if fault else store)
        self.store = self.queue.store
        self.paused = set()
        self.takes = 0.0
        self.begun, self.late = [], []

    def pass_time(self, ms, *workers, step=10):
        """Let workers work for some time, in steps."""
        for _ in range(0, ms, step):
            for worker in workers:
                worker.turn()
            self.clock.advance(timedelta(milliseconds=step))

    def claimed(self, jobs):
        pass

    def started(self, lease, worker):
        self.begun.append(lease.job)
        self.late.append(self.clock.wall() - lease.job.due)
        return self.takes

    def fails(self):
        return False

    def ended(self, lease):
        pass

    def troubled(self):
        raise AssertionError("the store failed")
