"""One store, its producers and workers, as a discrete-event model. Its omissions are in docs/scaling.md."""

from __future__ import annotations

import functools
import random
from collections import deque
from dataclasses import dataclass, field
from itertools import chain
from math import inf

from benchmarks.scaling.events import Cores, Disk, Events, Then
from benchmarks.scaling.kinds import Kind
from benchmarks.scaling.servers import Request, Server, Way
from pywheel.stores.ownership import owners, shards_of, turn

# As in pywheel.worker: pace, due_times, ownership.
ALONE, TOGETHER = 1_000, 128  # claims in a step with one topic, with several
LATE = 1_000  # ms after which any worker asks for a job
BEAT = 0.25  # seconds, while jobs are claimed
HELD = 1.0  # seconds after which a claim is void if its job has not begun
OVERDUE = 0.25  # seconds after which others help
MOST_PUTS = 256  # under way at once: producers wait for their answers
DRAINED = 30.0  # seconds after the last job became due in which the rest may be delivered


@dataclass(frozen=True)
class Setup:
    """The setup of a simulation. Seconds, and jobs a second; a host is a number of cores."""

    kind: Kind
    workers: int = 1
    topics: int = 1
    rate: float = 0.0  # jobs put, and jobs that become due, a second
    backlog: int = 0  # jobs that are due at the beginning
    seconds: float = inf  # after that nothing more becomes due; the backlog takes as long as it takes
    server_cores: int = 8
    host_cores: int = 8
    host_workers: int = 8  # on one host
    together: bool = False  # whether all share one host, the server included
    trip: float = 0.0  # a round trip on the network
    put_batch: int = 1  # jobs of one put's transaction, by group commit or put_many
    producers: int = 8  # processes that put
    near: float = 0.0  # the part of the jobs that are due so soon that a worker gets a message
    most: int = 0  # claims in a step; 0: as the worker does
    killed: float = inf  # when a busy worker dies
    detected: float = 0.1  # how long after that its slices go to others
    away: tuple[float, float] = (inf, inf)  # from when to when the store is away
    background: bool = True  # beats
    seed: int = 1


@dataclass
class Outcome:
    """The result of a simulation."""

    jobs: int = 0
    seconds: float = 0.0
    server: float = 0.0  # of its cores, busy
    disk: float = 0.0
    worker: float = 0.0  # of one core, the busiest worker
    batch: float = 0.0  # jobs of a step that claims any
    late: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds if self.seconds else 0.0

    def percentile(self, part: float) -> float:
        """Return the seconds by which `part` per cent of the jobs are late at most."""
        return self.late[min(int(part / 100 * len(self.late)), len(self.late) - 1)] if self.late else 0.0


class Worker:
    """One process: its dispatcher looks, claims, acks and waits, one after the other."""

    def __init__(self, run: Run, name: str, host: Cores) -> None:
        self.run = run
        self.name = name
        self.host = host
        self.ready: dict[Topic, None] = {}  # topics that may have jobs to claim
        self.to_look: dict[Topic, None] = {}
        self.hints = 0  # that are not read yet
        self.acks = 0
        self.turn = 0
        self.busy = False
        self.dead = False
        self.spent = 0.0

    def look_at(self, topic: Topic) -> None:
        """Look a topic up, with all others whose time it is now."""
        self.to_look[topic] = None
        self.run.events.after(0.0, self.wake)

    def wake(self) -> None:
        """Begin a step, unless one is under way or there is nothing to do."""
        if self.busy or self.dead or not (self.ready or self.acks or self.to_look or self.hints):
            return
        self.busy = True
        if self.to_look or self.hints:
            self._look()
        else:
            self._step()

    def _work(self, seconds: float, then: Then) -> None:
        self.spent += seconds
        self.host.use(seconds, then)

    def _look(self) -> None:
        """Ask when topics are due next, and read hints: a query each."""
        run, kind = self.run, self.run.kind
        topics, self.to_look, hints, self.hints = self.to_look, {}, self.hints, 0
        queries = bool(topics) + bool(hints)
        seconds = kind.look * queries + kind.look_more * (len(topics) + hints - queries)

        def looked() -> None:
            for topic in topics:
                if topic.due:
                    self.ready[topic] = None
                    topic.idle.pop(self, None)
                elif topic not in self.ready:
                    topic.idle[self] = None
            self._step()

        self._work(kind.worker_look * queries, lambda: run.look(seconds, looked))

    def _step(self) -> None:
        """Claim what is due, with the acks of the step before."""
        run, kind = self.run, self.run.kind
        self.turn += 1
        first = self.turn % max(len(self.ready), 1)
        topics = [*self.ready][first:] + [*self.ready][:first]
        acks, self.acks = self.acks, 0
        if not topics and not acks:
            self._over({})
            return
        claimed: dict[Topic, list[float]] = {}

        def claim() -> tuple[float, float | None]:
            passed = sum(topic.locked for topic in topics)
            most = run.most
            for place, topic in enumerate(topics):
                room = -(-most // (len(topics) - place))
                most -= room
                claimed[topic] = self._claim(topic, room)
            count = sum(map(len, claimed.values()))
            more = kind.claim * max(len(topics) - 1, 0) + kind.passed * passed + kind.deliver * count
            if not count and not acks:
                return kind.empty + more, None
            return kind.step + more, kind.deliver_bytes * count

        def committed() -> None:
            for topic, dues in claimed.items():
                topic.locked -= len(dues)

        def started() -> None:
            count = sum(map(len, claimed.values()))
            run.steps += bool(count)
            self._work(kind.worker * count, lambda: self._over(claimed))

        own = kind.worker_step + kind.worker_claim * max(len(topics) - 1, 0)
        self._work(own, lambda: run.ask(claim, started, committed))

    def _claim(self, topic: Topic, room: int) -> list[float]:
        """Take the first due jobs, also from others' slices; note whether there may be more."""
        claimed = [topic.due.popleft() for _ in range(min(len(topic.due), room))]
        topic.locked += len(claimed)
        if len(claimed) < room:
            self.ready.pop(topic, None)
            topic.idle[self] = None
        return claimed

    def _over(self, claimed: dict[Topic, list[float]]) -> None:
        run = self.run
        self.busy = False
        if self.dead:
            run.events.after(HELD, lambda: run.give_back(claimed))
            return
        now = run.events.now
        before = len(run.late)
        run.late.extend(now - due for due in chain.from_iterable(claimed.values()))
        self.acks += len(run.late) - before
        if len(run.late) > before:
            run.ended = now
        self.wake()


class Topic:
    """The due jobs of a topic, and the order in which workers ask for them."""

    def __init__(self, run: Run, name: str) -> None:
        self.run = run
        self.name = name
        self.due: deque[float] = deque()  # when each job was due
        self.locked = 0  # jobs of claims that are not committed
        self.idle: dict[Worker, None] = {}  # that know of no job before the next one that becomes due
        self.shards: dict[Worker, int] = {}
        self.owner: list[Worker] = []  # of each shard

    def own(self, there: dict[str, Worker]) -> None:
        """Divide the slices among the workers that are there."""
        self.owner = [there[name] for name in owners(self.name, tuple(there))]
        self.shards = {worker: shards_of(name, self.name, tuple(there)) for name, worker in there.items()}

    def tell(self) -> None:
        """Let those who know of nothing ask for a job that is due now: at once, or when it is their turn."""
        now = self.run.events.now
        due = int(1e3 * now)
        idle, self.idle = self.idle, {}
        for worker in idle:
            until = turn(self.shards.get(worker, 0), due, LATE)
            if until > due:
                self.run.events.at(max(1e-3 * until, now), functools.partial(worker.look_at, self))
            else:
                worker.ready[self] = None
                worker.wake()


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
        self.topics = [Topic(self, f"t{number}") for number in range(setup.topics)]
        self.steps = 0
        self.ended = 0.0
        self.came = setup.backlog
        self.producing = 0  # puts under way, bounded so that they do not pile up while the store is away
        self.own()

    # ---- who owns what ----------------------------------------------------------------------------------------------

    def own(self) -> None:
        """Divide the slices among those that are there, as the workers do."""
        there = {worker.name: worker for worker in self.workers if not worker.dead}
        self.alive = len(there)
        for topic in self.topics:
            topic.own(there)

    def ask(self, request: Request, then: Then, committed: Then) -> None:
        """Send the server a transaction, and have the answer."""
        half = self.setup.trip / 2

        def answer() -> None:
            committed()
            self.events.after(half, then)

        self.events.after(half, lambda: self.server.transact(request, answer))

    def look(self, seconds: float, then: Then) -> None:
        """Send the server a query, and have the answer."""
        half = self.setup.trip / 2
        self.events.after(half, lambda: self.server.read(seconds, lambda: self.events.after(half, then)))

    # ---- what comes by itself ---------------------------------------------------------------------------------------

    def arrive(self) -> None:
        """Let a job become due, and the next one later."""
        if self.events.now >= self.setup.seconds:
            return
        self.came += 1
        topic = self.draw.choice(self.topics)
        topic.due.append(self.events.now)
        topic.tell()
        self.events.after(self.draw.expovariate(self.setup.rate), self.arrive)

    def produce(self) -> None:
        """Let a producer put some jobs, and the next ones later."""
        setup, kind = self.setup, self.kind
        if self.events.now >= setup.seconds:
            return
        if self.producing < MOST_PUTS:
            self.producing += 1
            cost = (kind.transaction + kind.put * setup.put_batch, kind.put_bytes * setup.put_batch)
            self.server.transact(lambda: cost, self.produced)
        self.events.after(self.draw.expovariate(setup.rate / setup.put_batch), self.produce)

    def produced(self) -> None:
        """Tell workers of what is due soon: one at a time, as NOTIFY has one lock, and those that listen wake up."""
        self.producing -= 1
        near = self.setup.near * self.setup.put_batch
        if not near or self.draw.random() >= near:
            return
        owner, count = self.draw.choice(self.draw.choice(self.topics).owner), max(round(near), 1)

        def told() -> None:
            self.ringing -= 1
            owner.hints += count
            owner.wake()

        if self.ringing < self.setup.producers:  # else it goes with the next: each process has one thread that rings
            self.ringing += 1
            cost = self.kind.ring + self.kind.ring_each * self.alive
            self.bell.use(cost, told)
            self.cores.use(cost, _nothing)

    def beat(self, worker: Worker) -> None:
        """Show that a worker is there; let it look for what is overdue."""
        if worker.dead or self.over:
            return
        self.server.read(self.kind.beat + self.kind.beat_each * self.alive, _nothing)
        for topic in self.topics:
            if topic.due and topic.due[0] < self.events.now - OVERDUE and topic not in worker.ready:
                worker.look_at(topic)
        self.events.after(BEAT, lambda: self.beat(worker))

    def kill(self) -> None:
        """Let a worker die that is at work; after a while its slices are others'."""
        worker = max(self.workers, key=lambda worker: worker.busy)
        worker.dead = True
        self.events.after(self.setup.detected, self.inherit)

    def inherit(self) -> None:
        """Divide what a dead worker owned; those who gain look it up."""
        self.own()
        for worker in self.workers:
            for topic in self.topics:
                worker.look_at(topic)

    def give_back(self, claimed: dict[Topic, list[float]]) -> None:
        """Let jobs be due again that a dead worker held."""
        for topic, dues in claimed.items():
            if dues:
                topic.due.extendleft(reversed(dues))
                topic.tell()

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
            self.draw.choice(self.topics).due.append(0.0)
        for number, worker in enumerate(self.workers):
            worker.ready.update(dict.fromkeys(self.topics))
            worker.wake()
            if setup.background:
                events.after(number / setup.workers * BEAT, functools.partial(self.beat, worker))
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
