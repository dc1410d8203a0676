"""The memory store's own features: interrupts, and an optional source of chance. Its forks: test_fork."""

import random
from collections import Counter
from contextlib import suppress

import pytest

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores.memory import MemoryStore
from pywheel.testing import ManualClock
from tests.interrupts import at_each_place, interrupt, traced
from tests.stores import calls
from tests.stores.calls import listening

FILES = (
    *("memory/store.py", "sqlite/engine.py", "sqlite/presence.py", "sqlite/dialect.py"),
    *("sql/transaction.py", "sql/put.py"),
)
TERMS = ops.ClaimPolicy(1_000, 3, (1_000,), jitter=0.5)


def put(store, *topics):
    return calls.put(store, *(NewJob(topic, b"x", 0) for topic in topics or ("t",)))[0]


# ---- interrupts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topics", [("t",), ("t", "new {}")])
def test_an_interrupt_anywhere_in_a_put_leaves_all_of_it_or_nothing(topics):
    with MemoryStore() as store:
        notifier = listening(store)
        before = Counter(t=put(store))
        for number, intrusion in enumerate(at_each_place(FILES, interrupt)):
            names = [name.format(number) for name in topics]
            told = None
            with suppress(KeyboardInterrupt), traced(intrusion):
                told = put(store, *names)
            delayed = Counter({name: counts.delayed for name, counts in store.ask(CountJobs()).items()})
            whole = before + Counter(names)
            assert delayed in ([whole] if told else [whole, before])
            assert put(store) == delayed.total() + 1
            assert store.verify() == []
            notifier.hints()
            before = delayed + Counter("t")


# ---- chance ---------------------------------------------------------------------------------------------------------


def test_the_same_commands_with_the_same_chance_come_to_the_same():
    dues = []
    for _ in range(2):
        chance = random.Random(7)
        clock = ManualClock(wall=10**6)
        with MemoryStore(clock=clock, random=lambda chance=chance: chance.getrandbits(64) - 2**63) as store:
            put(store, *["t"] * 50)
            store.apply([ops.Reserve("t", 50, TERMS, "w")])
            clock.advance(1)
            store.apply([ops.Expire(50)])
            dues.append([store.ask(GetJob(id)).due for id in range(1, 51)])
            assert all(10**6 + 1_500 <= due <= 10**6 + 2_500 for due in dues[-1])
    assert dues[0] == dues[1]
    assert len(set(dues[0])) > 20
