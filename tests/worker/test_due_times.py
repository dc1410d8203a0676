"""Due times beside a list of jobs: after puts, moves and cancels, and with any owner, due jobs are claimed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywheel import JobQueue, ManualClock
from pywheel.jobs.commands import Ack, Claim, ClaimPolicy
from pywheel.jobs.job import SHARDS, SLICE, Due, slice_of
from pywheel.stores.notifier import Hints
from pywheel.stores.ownership import ALL
from pywheel.worker import due_times as module
from pywheel.worker.due_times import LATE, DueTimes

NOW = 1_700_000_000_000
STEP = 50  # ms
SHARES = [ALL, 0, 1, 0xFFFF, 0x55555555]


class Told:
    """A topic that notes what it is told of single jobs."""

    name = "t"

    def hint(self, due, priority):
        pass


class Teller:
    """A notifier that tells of changes in the slices that this worker owns, up to its horizon."""

    def __init__(self):
        self.due = []
        self.reload = False
        self.horizon = 0

    def publish(self, horizon):
        self.horizon = horizon

    def hints(self):
        told = Hints(self.due, self.reload)
        self.due, self.reload = [], False
        return told


class World:
    """The due times of one topic; all that becomes ready is claimed, a few jobs at a time."""

    def __init__(self):
        self.clock = ManualClock(wall=NOW)
        self.queue = JobQueue("memory:", clock=self.clock)
        self.teller = Teller()
        self.jobs = {}  # id: when it is due
        self.topic = Told()
        self.shards = ALL
        self.due_times = DueTimes(self.queue.store, self.teller, {"t": self.topic})
        self.own(ALL)

    def own(self, shards):
        self.shards = shards
        self.due_times.own(self.topic, shards)

    def put(self, count, delay, apart):
        dues = [delay + n * apart for n in range(count)]
        ids = self.queue.put_many([self.queue.job("t", delay=due / 1000) for due in dues])
        for id, due in zip(ids, dues, strict=True):
            self.change(id, self.clock.wall() + due)

    def change(self, id, due):
        self.jobs[id] = due
        if due <= self.teller.horizon and self.shards >> slice_of(due) & 1:
            self.teller.due.append(Due(due, id, "t"))

    def first(self, count):
        return sorted(self.jobs, key=self.jobs.get)[:count]

    def move(self, count, delay):
        for id in self.first(count):
            self.queue.reschedule(id, delay=delay / 1000)
            self.change(id, self.clock.wall() + delay)

    def cancel(self, count):
        for id in self.first(count):
            self.queue.cancel(id)
            del self.jobs[id]

    def forget(self):
        """Some hints are lost, and it is told so."""
        self.teller.due.clear()
        self.teller.reload = True

    def wait(self, steps):
        for _ in range(steps):
            self.clock.advance(STEP / 1000)
            self.turn()
            now = self.clock.wall()
            late = [id for id, due in self.jobs.items() if due <= now and self.shards >> slice_of(due) & 1]
            assert not late, f"{len(late)} of {len(self.jobs)} are due in slices of its own and not claimed"

    def turn(self):
        """Do as the dispatcher does, until there is nothing to do at this moment."""
        now = self.clock.wall()
        for _ in range(1_000):
            self.due_times.hear()
            self.due_times.advance(now)
            self.due_times.look(now)
            if self.topic in self.due_times.ready:
                self.claim()
            elif self.due_times.next_deadline() > now:
                return
        raise AssertionError("it does not come to rest")

    def claim(self):
        store = self.queue.store
        [claimed] = store.apply([Claim("t", (), ClaimPolicy(1_000, 9), "w", 5, limit=5)])
        store.apply([Ack(job.id, job.claims) for job in claimed.jobs])
        for job in claimed.jobs:
            del self.jobs[job.id]
        self.due_times.learn(self.topic, claimed.next)


OPERATIONS = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 60), st.integers(0, 30_000), st.sampled_from([0, 1, 40, 700])),
    st.tuples(st.just("move"), st.integers(1, 60), st.integers(0, 30_000)),
    st.tuples(st.just("cancel"), st.integers(1, 60)),
    st.tuples(st.just("forget")),
    st.tuples(st.just("own"), st.sampled_from(SHARES)),
    st.tuples(st.just("wait"), st.integers(1, 200)),
)


@given(st.lists(OPERATIONS, max_size=20))
def test_what_is_due_is_claimed_at_once_in_slices_of_its_own_and_at_last_in_any(operations):
    world = World()
    world.turn()
    for name, *arguments in operations:
        getattr(world, name)(*arguments)
    last = max(world.jobs.values(), default=NOW) - world.clock.wall()
    world.wait((max(last, 0) + module._LOOK + LATE) // STEP + 1)
    assert not world.jobs


BEGIN = NOW - NOW % (SHARDS * SLICE) + 3 * SHARDS * SLICE  # of a slice of its own


@pytest.mark.parametrize(
    ("due", "asked"),
    [(BEGIN - 2 * SLICE, BEGIN), (BEGIN + SLICE, BEGIN + SLICE + LATE)],
    ids=["when its own next one begins", "when it is late"],
)
def test_what_is_due_in_a_slice_of_another_is_asked_for(due, asked):
    world = World()
    world.own(1)
    world.put(1, due - NOW, 0)
    world.turn()
    while world.jobs:
        assert world.clock.wall() <= asked
        world.clock.advance(STEP / 1000)
        world.turn()
    assert world.clock.wall() >= asked - STEP * (due > BEGIN)
    world.queue.close()
