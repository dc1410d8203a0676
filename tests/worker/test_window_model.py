"""A window beside a list of jobs: whatever is put, moved or cancelled, and whatever is hinted, what is due is ready."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pywheel import JobQueue, ManualClock
from pywheel.jobs.job import Due
from pywheel.stores.notifier import Hints
from pywheel.stores.ownership import ALL
from pywheel.worker import windows as module
from pywheel.worker.window import Window

NOW = 1_700_000_000_000
STEP = 250  # ms


class Teller:
    """A notifier that tells of all changes, as one does whose horizon others see much further out than it is."""

    def __init__(self):
        self.due = []
        self.reload = False

    def publish(self, horizon):
        pass

    def hints(self):
        told = Hints(self.due, self.reload)
        self.due, self.reload = [], False
        return told


class Windowed:
    """Windows that know few jobs, read page by page; all that becomes ready is taken."""

    def __init__(self):
        self.clock = ManualClock(wall=NOW)
        self.queue = JobQueue("memory:", clock=self.clock)
        self.teller = Teller()
        self.jobs = {}  # id: when it is due
        self.window = Window("t", 16)
        self.window.shards = ALL
        self.windows = module.Windows(self.queue.store, self.teller, [self.window])

    def put(self, count, delay, apart):
        dues = [delay + n * apart for n in range(count)]
        ids = self.queue.put_many([self.queue.job("t", delay=due / 1000) for due in dues])
        for id, due in zip(ids, dues, strict=True):
            self.change(id, self.clock.wall() + due)

    def change(self, id, due):
        self.jobs[id] = due
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

    def reload(self):
        self.teller.reload = True

    def wait(self, steps):
        for _ in range(steps):
            self.clock.advance(STEP / 1000)
            self.turn()
            late = [id for id, due in self.jobs.items() if due <= self.clock.wall()]
            assert not late, f"{len(late)} of {len(self.jobs)} are due and not ready"

    def turn(self):
        """Do as the dispatcher does, until there is nothing to do at this moment."""
        now = self.clock.wall()
        for _ in range(1_000):
            self.windows.hear()
            self.windows.read(now)
            self.windows.advance(now)
            ids = self.window.take(5, 0)
            for id in ids:
                if self.jobs.get(id, now + 1) <= now:
                    self.queue.cancel(id)
                    del self.jobs[id]
            left = [Due(self.jobs[id], id, "t") for id in ids if id in self.jobs]
            if ids:
                self.windows.claimed(self.window, ids, left)
            if left:
                self.windows.put_back(self.window, left)
            self.windows.feed()
            if not self.window.ready and self.windows.next_deadline() > now:
                return
        raise AssertionError("it does not come to rest")


OPERATIONS = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 60), st.integers(0, 30_000), st.sampled_from([0, 1, 40, 700])),
    st.tuples(st.just("move"), st.integers(1, 60), st.integers(0, 30_000)),
    st.tuples(st.just("cancel"), st.integers(1, 60)),
    st.tuples(st.just("reload")),
    st.tuples(st.just("wait"), st.integers(1, 60)),
)


def play(operations):
    world = Windowed()
    world.turn()
    for name, *arguments in operations:
        getattr(world, name)(*arguments)
    world.wait(300)
    assert not world.jobs


@pytest.fixture(autouse=True)
def small_pages():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PAGE", 5)
        yield


@settings(deadline=None, max_examples=150)
@given(st.lists(OPERATIONS, max_size=20))
def test_what_is_due_is_ready_whatever_changed_and_was_told(operations):
    play(operations)


def test_a_window_full_of_later_jobs_that_is_read_from_the_beginning_is_read_to_its_end():
    later = [("put", 1, 4_000 + 10 * n, 0) for n in range(14)]
    play([*later, ("put", 20, 1_000, 20), ("reload",), ("wait", 1)])


def test_jobs_moved_out_of_what_was_read_do_not_keep_the_next_from_being_read():
    play([("put", 60, 1_000, 10), ("wait", 1), ("move", 20, 25_000), ("wait", 8)])
