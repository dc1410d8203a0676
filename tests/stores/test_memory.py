"""The memory store's own features: forks, interrupts, and an optional source of chance."""

import os
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
from tests.isolated.child import run_well
from tests.stores import calls
from tests.stores.calls import listening

FILES = (
    *("memory/store.py", "sqlite/engine.py", "sqlite/presence.py", "sqlite/dialect.py"),
    *("sql/transaction.py", "sql/put.py"),
)
TERMS = ops.ClaimPolicy(1_000, 3, (1_000,), jitter=0.5)


def put(store, *topics):
    return calls.put(store, *(NewJob(topic, b"x", 0) for topic in topics or ("t",)))[0]


# ---- forks ----------------------------------------------------------------------------------------------------------

FORKS = """
import os, threading, time, warnings
warnings.simplefilter("ignore")  # Python warns of forks beside threads: that is what is tried here
from pywheel import JobQueue

queue = JobQueue("memory:")
over = threading.Event()

def work():
    while not over.is_set():
        queue.put_many(queue.job("t", n) for n in range(20))
        queue.topics.counts()

threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(100):
    child = os.fork()
    if child == 0:
        before = queue.topics.counts()["t"].delayed if "t" in queue.topics.counts() else 0
        queue.put("t")
        os._exit(before % 20 or queue.topics.counts()["t"].delayed - before - 1)
    until = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
        time.sleep(0.001)
    assert ended == (child, 0), ended
over.set()
for thread in threads:
    thread.join()
print("well")
"""


@pytest.mark.stress
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_fork_has_a_whole_copy_of_its_own_whatever_threads_were_doing():
    assert run_well("-c", FORKS) == "well\n"


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
