"""The ledger notices each fault that is planted in the stores of its processes, and its watchdog who is stopped.

A process that is stopped in its turn to write delays nobody; one stopped in a transaction does, and is seen.
"""

import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from pywheel import JobQueue
from tests.isolated.child import environment
from tests.jobs.waiting import until
from tests.seeds import SEED
from tests.worker.accounts import Accounts
from tests.worker.intervals import union
from tests.worker.ledger import LIMITED, TOPICS, lines
from tests.worker.ledger_watchdog import Waits, is_stopped, sync
from tests.worker.plants import ALL_READY
from tests.worker.storm import Storm

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]
CALLS = 250  # of producers, after which a fault has had its chance, once all workers are ready


def kinds(folder, plant, calls=CALLS, topics=TOPICS, workers=1, excuses=False):
    """Return of what kinds the faults are that the accounting finds.

    Where a fault is to be found, the machine is no excuse: on a busy one each lost lease might be its doing.
    """
    storm = Storm(folder, SEED, f"sqlite:///{folder}/jobs.db", workers=0, producers=4, plant=plant, topics=topics)
    try:
        storm.workers += [storm.worker(list(TOPICS[:-1]), at_once=8) for _ in range(workers)]
        ready = {process.pid for process in storm.workers}
        until(lambda: ready <= {line["pid"] for line in lines(storm.path)["ready"]})
        Path(folder, ALL_READY).touch()
        before = len(lines(storm.path)["told"])
        while len(lines(storm.path)["told"]) < before + calls:
            storm.let_pass(0.2)
        storm.calm_down()
        accounts = Accounts(storm.path, storm.queue, excuses=excuses)
    finally:
        storm.end()
    print(accounts.wrong[:5])
    return {text.partition(":")[0] for text in accounts.wrong}


PLANTS = [
    ("claim given twice, early, put lost", {"twice", "early", "lost"}, {}),
    ("ack dropped, cancel dropped, old body", {"lost lease", "cancelled", "old body"}, {"calls": 800}),
    ("limit passed", {"limit"}, {"topics": (LIMITED,)}),
]


@pytest.mark.parametrize(
    ("plants", "said", "more"),
    # One with each seed; `make planted` has the others.
    [pytest.param(*it, marks=[pytest.mark.planted] * (place != SEED % len(PLANTS))) for place, it in enumerate(PLANTS)],
)
def test_the_ledger_notices(tmp_path, plants, said, more):
    """Faults that are told apart by what is said of them."""
    assert said <= kinds(tmp_path, plants, **more)


def test_a_process_that_is_stopped_in_its_turn_holds_nobody_up(tmp_path):
    assert kinds(tmp_path, "stopped in turn", workers=3, excuses=True) == set()


def test_the_ledger_notices_that_a_process_which_is_stopped_in_its_turn_is_waited_for(tmp_path):
    assert "waited" in kinds(tmp_path, "turn waited for", workers=3)


HOLDER = """
import sys, time
from pywheel.stores import open
store = open(sys.argv[1])
def hold(connection):
    connection.execute(sys.argv[2])
    print("holds", flush=True)
    time.sleep(60)
store._alone(hold)
"""


@pytest.fixture
def watched(tmp_path):
    """Give a function: what the watchdog sees of a process that is stopped for a while in its turn to write."""

    def see(statement):
        ledger = tmp_path / "ledger.txt"
        ledger.touch()

        def looks(since):
            """Return some of the times at which it has looked since then."""
            return [line["since"] for line in lines(ledger)["kept"] if line["since"] > since]

        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, f"sqlite:///{tmp_path}/jobs.db", statement], stdout=subprocess.PIPE
        )
        assert holder.stdout.readline() == b"holds\n"
        script = Path(__file__).with_name("ledger_watchdog.py")
        watchdog = subprocess.Popen([sys.executable, str(script), str(ledger)], env=environment())
        try:
            until(lambda: looks(0))
            before = looks(0)[-1]
            holder.send_signal(signal.SIGSTOP)
            until(lambda: is_stopped(holder.pid))
            stopped = time.time() * 1000
            until(lambda: len(looks(stopped)) > 3)
            looked = looks(stopped)
            holder.send_signal(signal.SIGCONT)
            continued = time.time() * 1000
            until(lambda: looks(continued))
        finally:
            for process in (watchdog, holder):
                process.kill()
                process.wait()
            holder.stdout.close()
        seen = lines(ledger)["held"]
        assert {line["who"] for line in seen} <= {holder.pid}
        return before, looked, continued, seen

    return see


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is asked as Linux says it")
def test_the_watchdog_sees_a_stopped_process_in_a_transaction_for_just_as_long(watched):
    before, looked, continued, seen = watched("BEGIN IMMEDIATE")
    [(begin, end)] = union([(line["since"], line["wall"]) for line in seen])
    assert before <= begin <= looked[0] < looked[-1] <= end
    assert seen[-1]["since"] < continued


@pytest.mark.parametrize("statement", ["SELECT 1", "BEGIN"])
def test_the_watchdog_sees_none_that_is_stopped_in_its_turn_alone_or_reading(watched, statement):
    assert watched(statement)[-1] == []


def test_the_accounts_take_off_for_how_long_the_watchdogs_sync_took(tmp_path, monkeypatch):
    syncs, ledger = count(), tmp_path / "ledger.txt"

    def slow_once(_):
        number = next(syncs)
        if number == 1:
            time.sleep(0.3)
        if number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", slow_once)
    with pytest.raises(KeyboardInterrupt):
        sync(ledger)
    line = max(lines(ledger)["disk"], key=lambda line: line["wall"] - line["since"])
    assert line["wall"] - line["since"] >= 300
    with JobQueue("memory:") as queue:
        for excuses, taken_off in ((True, 200), (False, 0)):
            accounts = Accounts(ledger, queue, excuses=excuses)
            assert accounts._syncing(line["wall"] - 200, line["wall"]) == pytest.approx(taken_off, abs=1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_the_watchdog_sees_for_how_long_a_process_was_kept_from_running():
    busy = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\nwhile True: pass"
    waits = Waits(os.getpid())
    rivals = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(2)]
    try:
        until(lambda: waits.longest() > 1)
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()
