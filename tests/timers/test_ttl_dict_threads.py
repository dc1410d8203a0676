"""Several threads on one TTLDict, interrupts, and forks."""

import random
import threading
from collections import Counter
from itertools import chain

import pytest

from tests.timers.crowd import Crowd, restless

THREADS = 4


def check(d):
    """What must be so whenever nobody is at work."""
    d._wheel._check()
    assert sorted(entry[1] for entry in d._data.values()) == sorted(d._wheel)
    assert d._soonest <= min(map(d._wheel.deadline, d._wheel), default=d._soonest)


@pytest.mark.parametrize("maxsize", [None, 50])
def test_each_key_goes_once_however_many_threads_pull_at_it(pywheel, maxsize):
    told = []  # appending is one step
    d = pywheel.TTLDict(0.002, maxsize=maxsize, on_expire=lambda *item: told.append(item))
    popped = [[] for _ in range(THREADS)]

    def work(thread):
        rng = random.Random(thread)
        for number in range(1500):
            d[thread, number] = thread, number
            other = rng.randrange(THREADS), number - rng.randrange(20)
            if rng.random() < 0.3:
                d.touch(other, rng.random() / 500)
            elif rng.random() < 0.5:
                value = d.pop(other, None)
                if value is not None:
                    popped[thread].append((other, value))
            elif rng.random() < 0.1:
                d.get(other)
                len(d)
                list(d.items())

    with restless():
        Crowd().run(*(lambda thread=thread: work(thread) for thread in range(THREADS)))
    check(d)
    left = d._snapshot()  # a list would ask for the length, too, and more might expire
    went = Counter(chain(told, *popped, left))
    assert set(went.values()) == {1}
    assert set(went) == {((thread, number),) * 2 for thread in range(THREADS) for number in range(1500)}


def test_a_reader_never_gets_what_was_overdue_when_it_asked(pywheel, clock):
    d = pywheel.TTLDict(1, clock=clock)
    done = threading.Event()

    def write():
        try:
            for number in range(4000):
                deadline = clock.time_ns() + 1 + number % 3
                d.set(number % 2, deadline, (1 + number % 3) / 1e9)
                assert d[number % 2] == deadline  # and it is never gone early
                clock.jump(1e-9)
        finally:
            done.set()

    def read(look):
        while not done.is_set():
            before = clock.time_ns()
            for key in (0, 1):
                deadline = look(key)
                assert deadline is None or deadline > before

    def subscript(key):
        try:
            return d[key]
        except KeyError:
            return None

    with restless():
        Crowd().run(
            write, lambda: read(d.get), lambda: read(subscript), lambda: read(lambda key: dict(d.items()).get(key))
        )
    check(d)


@pytest.mark.parametrize("look", ["get", "__getitem__", "__contains__"])
def test_a_reader_whom_another_thread_outruns_does_not_get_what_that_dropped(pywheel, clock, look):
    class Interrupted(dict):
        """Another thread has its turn after the first lookup."""

        turns = 1

        def get(self, key):
            entry = super().get(key)
            self.turns -= 1
            if self.turns == 0:
                d.expire()
            return entry

    d = pywheel.TTLDict(10, clock=clock)
    d["a"] = 1
    clock.advance(10)
    d._data = Interrupted(d._data)
    if look == "__getitem__":
        with pytest.raises(KeyError):
            d["a"]
    else:
        assert not getattr(d, look)("a")


def test_of_many_threads_that_set_a_missing_key_by_default_one_wins(pywheel):
    d = pywheel.TTLDict(3600)
    with restless():
        answers = Crowd().run(
            *(lambda thread=thread: [d.setdefault(key, thread) for key in range(500)] for thread in range(THREADS))
        )
    assert all(answer == list(d.values()) for answer in answers)
    check(d)


def test_on_expire_may_wait_for_another_thread_that_uses_the_dict(pywheel, clock):
    def wait_for_another(key, value):
        Crowd().run(lambda: d.set("from another thread", value))

    d = pywheel.TTLDict(10, clock=clock, on_expire=wait_for_another)
    d["a"] = 1
    clock.advance(10)
    assert d == {"from another thread": 1}


def test_expire_keeps_to_its_limit_after_an_interrupt(pywheel, clock):
    class Key:
        interrupt = False

        def __hash__(self):
            if self.interrupt:
                raise KeyboardInterrupt
            return 5

    d = pywheel.TTLDict(10, clock=clock)
    key = Key()
    d[key] = 0
    d.update(dict.fromkeys(range(50)))
    clock.advance(10)
    key.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        d.expire()
    key.interrupt = False
    assert [d.expire(limit=20) for _ in range(4)] == [20, 20, 11, 0]
    check(d)
