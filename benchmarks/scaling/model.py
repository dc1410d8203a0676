"""One store, its producers and workers, as a discrete-event model. What it leaves out stands in docs/scaling.md."""

from __future__ import annotations

import functools
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from benchmarks.scaling.events import Cores, Disk, Events, Then
from benchmarks.scaling.kinds import Kind
from benchmarks.scaling.servers import Server, Way
from pywheel.jobs.job import SHARDS
from pywheel.stores.ownership import owners

# As in pywheel.worker: dispatcher, window, ownership.
ALONE, TOGETHER = 1_000, 128  # claims in a step with one topic, with several
PAGE = 500  # jobs in one read of a window
READ = 2.5  # seconds between reads
BEAT = 1.0
HELD = 1.0  # seconds after which a claim is void whose job has not begun
OVERDUE = 0.25  # seconds after which others help
MOST_PUTS = 256  # under way at once: producers wait for their answers
DRAINED = 30.0  # seconds after the last job became due in which the rest may be delivered


@dataclass(frozen=True)
class Setup:
    """What is simulated. Seconds, and jobs a second; a host is a number of cores."""

    kind: Kind
    workers: int = 1
    topics: int = 1
    rate: float = 0.0  # jobs that are put, and that become due, a second
    backlog: int = 0  # jobs that are due at the beginning
    seconds: float = inf  # after which nothing more becomes due; the backlog may take as long as it takes
    server_cores: int = 8
    host_cores: int = 8
    host_workers: int = 8  # on one host
    together: bool = False  # all on one host: the server too
    trip: float = 0.0  # a round trip on the network
    put_batch: int = 1  # jobs of one put's transaction, by group commit or put_many
    producers: int = 8  # processes that put
    near: float = 0.0  # of the jobs put, those due so soon that a worker is told of them
    most: int = 0  # claims in a step; 0: as the worker does
    killed: float = inf  # when the first worker dies
    detected: float = 0.1  # how long after that its shards are others'
    away: tuple[float, float] = (inf, inf)  # when the store is
    background: bool = True  # beats and reads of windows
    seed: int = 1


@dataclass
class Outcome:
    """What came of it."""

    jobs: int = 0
    seconds: float = 0.0
    server: float = 0.0  # of its cores, busy
    disk: float = 0.0
    worker: float = 0.0  # of one core, the busiest worker
    batch: float = 0.0  # jobs of a step that claims
    late: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds if self.seconds else 0.0

    def percentile(self, part: float) -> float:
        """Return the seconds by which so many per cent are late at most."""
        return self.late[min(int(part / 100 * len(self.late)), len(self.late) - 1)] if self.late else 0.0


class Worker:
    """One process: its dispatcher reads, claims, acks and waits, one after the other."""

    def __init__(self, run: Run, name: str, host: Cores) -> None:
        self.run = run
        self.name = name
        self.host = host
        self.ready: deque[float] = deque()  # when they were due
        self.acks = 0
        self.pages = 0
        self.told = 0
        self.busy = False
        self.dead = False
        self.spent = 0.0

    def due(self, times: Iterable[float]) -> None:
        self.ready.extend(times)
        self.wake()

    def wake(self) -> None:
        """Begin a step, unless one is under way or there is nothing to do."""
        if self.busy or self.dead or not (self.ready or self.acks or self.pages or self.told):
            return
        self.busy = True
        if self.pages or self.told:
            self._look()
        else:
            self._step()

    def _look(self) -> None:
        """Read a page of the window, and the jobs that it was told of."""
        kind = self.run.kind
        passed = PAGE * (self.run.alive - 1) if self.pages else 0
        seconds = kind.read * (PAGE * (self.pages > 0) + self.told) + kind.passed * passed
        self.pages = max(self.pages - 1, 0)
        self.told = 0
        self.run.ask(seconds, self._step)

    def _step(self) -> None:
        """Claim what is due, with the acks of the step before."""
        run, kind = self.run, self.run.kind
        claimed = [self.ready.popleft() for _ in range(min(len(self.ready), run.most))]
        acks, self.acks = self.acks, 0
        if not claimed and not acks:
            self._over(claimed)
            return
        run.steps += bool(claimed)
        own = kind.worker_step + kind.worker * len(claimed)
        self.spent += own
        server, log = kind.step + kind.deliver * len(claimed), kind.deliver_bytes * len(claimed)
        self.host.use(own, lambda: run.ask(server, lambda: self._over(claimed), log))

    def _over(self, claimed: list[float]) -> None:
        run = self.run
        self.busy = False
        if self.dead:
            run.events.after(HELD, lambda: run.hand_out(claimed))
            return
        now = run.events.now
        run.late.extend(now - due for due in claimed)
        run.ended = now
        self.acks += len(claimed)
        self.wake()


class Run:
    """One simulation."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.kind = setup, setup.kind
        self.events = Events()
        self.draw = random.Random(setup.seed)
        self.most = setup.most or (ALONE if setup.topics == 1 else TOGETHER)
        shared = Cores(self.events, setup.host_cores) if setup.together else None
        way = setup.kind.way
        alone = Cores(self.events, setup.server_cores if way is Way.TOGETHER else 1)
        self.cores = alone if shared is None or way is Way.LOCK else shared
        self.disk = Disk(self.events, setup.kind.flush, setup.kind.bandwidth)
        self.server = Server(self.events, way, self.cores, self.disk, setup.away, self.draw)
        self.ringing = 0
        hosts = [shared or Cores(self.events, setup.host_cores) for _ in range(-(-setup.workers // setup.host_workers))]
        self.workers = [Worker(self, f"w{n}@{n:08x}", hosts[n % len(hosts)]) for n in range(setup.workers)]
        self.bell = Cores(self.events, 1)  # NOTIFY's lock
        self.late: list[float] = []
        self.orphans: list[float] = []
        self.steps = 0
        self.ended = 0.0
        self.came = setup.backlog
        self.producing = 0  # puts under way, so that a store that is away does not gather them without end
        self.own()

    # ---- who owns what ----------------------------------------------------------------------------------------------

    def own(self) -> None:
        """Divide the shards among those that are there, as the workers do."""
        there = {worker.name: worker for worker in self.workers if not worker.dead}
        names = tuple(there)
        self.alive = len(there)
        self.owner = [[there[name] for name in owners(f"t{topic}", names)] for topic in range(self.setup.topics)]

    def anyone(self) -> Worker:
        """Return the owner of some shard of some topic."""
        return self.draw.choice(self.owner)[self.draw.randrange(SHARDS)]

    def ask(self, seconds: float, then: Then, bytes: float | None = None) -> None:  # noqa: A002
        """Send the server something to do, and have the answer."""
        half = self.setup.trip / 2
        self.events.after(half, lambda: self.server.transact(seconds, lambda: self.events.after(half, then), bytes))

    # ---- what comes by itself ---------------------------------------------------------------------------------------

    def arrive(self) -> None:
        """Let a job become due, and the next one later."""
        if self.events.now >= self.setup.seconds:
            return
        self.came += 1
        self.hand_out([self.events.now])
        self.events.after(self.draw.expovariate(self.setup.rate), self.arrive)

    def produce(self) -> None:
        """Let somebody put some jobs, and the next one later."""
        setup, kind = self.setup, self.kind
        if self.events.now >= setup.seconds:
            return
        if self.producing < MOST_PUTS:
            self.producing += 1
            seconds = kind.transaction + kind.put * setup.put_batch
            self.server.transact(seconds, self.produced, kind.put_bytes * setup.put_batch)
        self.events.after(self.draw.expovariate(setup.rate / setup.put_batch), self.produce)

    def produced(self) -> None:
        """Tell workers of what is due soon: one at a time, as NOTIFY has one lock, and those that listen wake up."""
        self.producing -= 1
        near = self.setup.near * self.setup.put_batch
        if not near or self.draw.random() >= near:
            return
        owner, count = self.anyone(), max(round(near), 1)

        def told() -> None:
            self.ringing -= 1
            owner.told += count
            owner.wake()

        if self.ringing < self.setup.producers:  # else it goes with the next: each process has one thread that rings
            self.ringing += 1
            cost = self.kind.ring + self.kind.ring_each * self.alive
            self.bell.use(cost, told)
            self.cores.use(cost, _nothing)

    def beat(self, worker: Worker) -> None:
        """Show that a worker is there; let it help one that is behind."""
        if worker.dead or self.over:
            return
        cost = self.kind.beat + self.kind.beat_each * self.alive
        self.server.transact(cost, _nothing)
        self.help(worker)
        self.events.after(BEAT, lambda: self.beat(worker))

    def help(self, worker: Worker) -> None:
        """Take a page of what is overdue with the one that is most behind."""
        if worker.ready:
            return
        behind = [other for other in self.workers if other.ready and other.ready[0] < self.events.now - OVERDUE]
        if behind:
            first = min(behind, key=lambda other: other.ready[0])
            worker.due([first.ready.popleft() for _ in range(min(len(first.ready), PAGE))])

    def read(self, worker: Worker) -> None:
        """Let a worker read its windows on."""
        if worker.dead or self.over:
            return
        share = self.setup.rate * READ / max(self.alive, 1)
        worker.pages += max(round(share / PAGE), 1) if share else 0
        worker.wake()
        self.events.after(READ, lambda: self.read(worker))

    def kill(self) -> None:
        """Let the first worker die; after a while its shards are others'."""
        worker = self.workers[0]
        worker.dead = True
        self.orphans.extend(worker.ready)
        worker.ready.clear()
        self.events.after(self.setup.detected, self.inherit)

    def inherit(self) -> None:
        """Divide what a dead worker owned."""
        self.own()
        orphans, self.orphans = self.orphans, []
        self.hand_out(sorted(orphans))

    def hand_out(self, dues: list[float]) -> None:
        """Give jobs to those who own them now."""
        for due in dues:
            owner = self.anyone()
            if owner.dead:
                self.orphans.append(due)
            else:
                owner.due([due])

    # ---- all of it --------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether all that came was delivered, and nothing more comes."""
        done = len(self.late) >= self.came
        return done and (not self.setup.rate or self.events.now >= self.setup.seconds)

    def outcome(self) -> Outcome:
        """Simulate."""
        setup, events = self.setup, self.events
        for _ in range(setup.backlog):
            self.anyone().ready.append(0.0)
        for number, worker in enumerate(self.workers):
            worker.wake()
            if setup.background:
                apart = number / setup.workers
                events.after(apart * BEAT, functools.partial(self.beat, worker))
                events.after(apart * READ, functools.partial(self.read, worker))
        if setup.rate:
            events.after(0.0, self.arrive)
            events.after(0.0, self.produce)
        if setup.killed < setup.seconds:
            events.after(setup.killed, self.kill)
        longest = setup.seconds + DRAINED if setup.rate else inf
        events.run(longest, lambda: not self.over)
        self.late.sort()
        seconds = max(self.ended, 1e-9)
        return Outcome(
            len(self.late),
            seconds,
            self.cores.busy / seconds / self.cores.count,
            self.disk.busy / seconds,
            max(worker.spent for worker in self.workers) / seconds,
            len(self.late) / max(self.steps, 1),
            self.late,
        )


def _nothing() -> None:
    pass


def simulate(setup: Setup) -> Outcome:
    """Return what comes of a setup, the same for the same seed."""
    return Run(setup).outcome()
