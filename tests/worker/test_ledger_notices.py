"""The accounting of the ledger notices each fault that is planted in the stores of its processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.isolated.child import environment
from tests.jobs.waiting import until
from tests.seeds import SEED
from tests.worker.accounts import Accounts
from tests.worker.intervals import union
from tests.worker.ledger import LIMITED, TOPICS, lines
from tests.worker.ledger_watchdog import is_stopped
from tests.worker.storm import Storm

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]
CALLS = 250  # of producers, after which a fault has had its chance


def kinds(folder, plant, calls=CALLS, topics=TOPICS, workers=1):
    """Return of what kinds the faults are that the accounting finds."""
    storm = Storm(folder, SEED, f"sqlite:///{folder}/jobs.db", workers=0, producers=4, plant=plant, topics=topics)
    try:
        storm.workers += [storm.worker(list(TOPICS[:-1])) for _ in range(workers)]
        while len(lines(storm.path)["told"]) < calls:
            storm.let_pass(0.2)
        storm.calm_down()
        accounts = Accounts(storm.path, storm.queue)
    finally:
        storm.end()
    print(accounts.wrong[:5])
    return {text.partition(":")[0] for text in accounts.wrong}


def test_a_calm_ledger_without_a_fault_is_right(tmp_path):
    assert kinds(tmp_path, "") == set()


def test_the_ledger_notices_a_claim_given_twice(tmp_path):
    assert "twice" in kinds(tmp_path, "claim given twice")


def test_the_ledger_notices_an_ack_dropped(tmp_path):
    assert "lost lease" in kinds(tmp_path, "ack dropped")


def test_the_ledger_notices_an_old_body_after_a_replacement(tmp_path):
    assert "old body" in kinds(tmp_path, "old body", calls=800)


def test_the_ledger_notices_a_limit_passed(tmp_path):
    assert "limit" in kinds(tmp_path, "limit passed", topics=(LIMITED,))


def test_the_ledger_notices_a_job_that_is_early(tmp_path):
    assert "early" in kinds(tmp_path, "early")


def test_the_ledger_notices_a_job_after_its_cancel_returned_true(tmp_path):
    assert "cancelled" in kinds(tmp_path, "cancel dropped")


def test_the_ledger_notices_a_put_lost(tmp_path):
    assert "lost" in kinds(tmp_path, "put lost")


# ---- who is stopped, and keeps others from writing ------------------------------------------------------------------


def test_a_process_that_is_stopped_in_its_turn_holds_nobody_up(tmp_path):
    assert kinds(tmp_path, "stopped in turn", workers=3) == set()


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
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, f"sqlite:///{tmp_path}/jobs.db", statement], stdout=subprocess.PIPE
        )
        assert holder.stdout.readline() == b"holds\n"
        script = Path(__file__).with_name("ledger_watchdog.py")
        watchdog = subprocess.Popen([sys.executable, str(script), str(ledger)], env=environment())
        try:
            time.sleep(1)
            since = time.time() * 1000
            holder.send_signal(signal.SIGSTOP)
            until(lambda: is_stopped(holder.pid))
            time.sleep(1)
            holder.send_signal(signal.SIGCONT)
            over = time.time() * 1000
            time.sleep(0.5)
        finally:
            for process in (watchdog, holder):
                process.kill()
                process.wait()
            holder.stdout.close()
        assert {line["who"] for line in lines(ledger)["held"]} <= {holder.pid}
        return since, over, union([(line["since"], line["wall"]) for line in lines(ledger)["held"]])

    return see


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is asked as Linux says it")
def test_the_watchdog_sees_a_stopped_process_in_a_transaction_for_just_as_long(watched):
    since, over, held = watched("BEGIN IMMEDIATE")
    [(begin, end)] = held
    assert since <= begin < end <= over + 1
    assert end - begin > (over - since) / 2


@pytest.mark.parametrize("statement", ["SELECT 1", "BEGIN"])
def test_the_watchdog_sees_none_that_is_stopped_in_its_turn_alone_or_reading(watched, statement):
    assert watched(statement)[2] == []
