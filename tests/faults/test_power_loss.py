"""The power fails between any two calls of the system: what had returned by then is there, all of it, once."""

import os
import random
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from pywheel import StoreError
from pywheel.client.circuit_breaker import CircuitBreaker
from pywheel.client.forwarder import Forwarder
from pywheel.client.spool import Spool
from pywheel.jobs.queries import Filter, ListJobs
from pywheel.stores import open
from pywheel.testing import ManualClock
from tests.faults.calls import needs_preload
from tests.faults.lives import OF_A_LIFE, fail_often
from tests.faults.notes import NAME
from tests.faults.spool_life import SERVER
from tests.faults.store_life import NOW, TOPICS, deliver_the_rest, held
from tests.seeds import SEED

pytestmark = [pytest.mark.stress, needs_preload]

CUTS = int(os.environ.get("PYWHEEL_CUTS") or 200)
STEPS = 60


# ---- a store, by one thread: it holds what it held after the last step that returned, or after the one under way ----


def account_of_steps(before, folder, notes, later):
    """Return what a store holds: what it held after the last step that returned, or after the one under way."""
    steps = [note["begun"] for note in notes if "begun" in note]
    ended = [note["ended"] for note in notes if "ended" in note]
    after = [note["held"] for note in (*notes, *later) if "held" in note]
    after += [after[-1]] * (len(steps) - len(after))  # to close it changes nothing
    states = [before, *after][len(ended) : len(steps) + 1]
    for number, step in enumerate(steps):
        if step.startswith("copy") and (number < len(ended) or (folder / step).exists()):
            with open(f"sqlite:///{folder}/{step}", clock=ManualClock(wall=NOW), create=False) as copy:
                assert held(copy) == after[number]
                assert copy.verify() == []
    with open(f"sqlite:///{folder}/{NAME}", clock=ManualClock(5, wall=NOW)) as store:
        found = held(store)
        assert found in states, [(set(state) - set(found), set(found) - set(state)) for state in states]
        assert store.verify() == []
        deliver_the_rest(store, TOPICS)
    return found


def test_what_a_store_had_done_before_a_power_failure_is_there_once_and_whole(tmp_path):
    fail_often("store_life.py", tmp_path, random.Random(SEED), CUTS, STEPS, account_of_steps)


# ---- a worker, and threads that put beside it -----------------------------------------------------------------------


def account_of_a_worker(before, folder, notes, later):
    """Each put that returned is there once, each claim whose handler began is, each end that was told holds."""
    notes = before + notes
    with open(f"sqlite:///{folder}/{NAME}", clock=ManualClock(5, wall=time.time_ns() // 1_000_000)) as store:
        jobs = {job.json(): job for job in store.ask(ListJobs(Filter())) if job.topic == "t"}
        all_or_none(notes, Counter(job.json() for job in store.ask(ListJobs(Filter()))))
        for number, claims in (note["began"] for note in notes if "began" in note):
            assert number in jobs, f"{number} had begun, and is gone"
            assert jobs[number].claims >= claims
        for number, state in (note["settled"] for note in notes if "settled" in note):
            assert state == "delayed" or (number in jobs and jobs[number].state == state), (number, state)
        assert store.verify() == []
        deliver_the_rest(store, ["t"])
    return notes


def all_or_none(notes, found, but=()):
    """A put that returned is there once, one under way whole or not at all, and nothing else is."""
    kept = [note["kept"] for note in notes if "kept" in note]
    for batch in (note["put"] for note in notes if "put" in note):
        counts = {found.pop(number, 0) for number in batch if number not in but}
        assert counts <= {1} or (counts == {0} and batch not in kept), (batch, counts)
    assert not found


def test_what_a_worker_and_threads_had_done_before_a_power_failure_holds(tmp_path):
    fail_often("worker_life.py", tmp_path, random.Random(SEED), CUTS // 2, STEPS, account_of_a_worker)


# ---- a spool --------------------------------------------------------------------------------------------------------


def account_of_a_spool(before, folder, notes, later):
    """Once all is forwarded each put that returned is in the store, once, unless it was cancelled; nothing else is."""
    notes = before + notes
    clock = ManualClock(5, wall=time.time_ns() // 1_000_000 + 3_600_000)
    with (
        open(f"sqlite:///{folder}/{SERVER}", clock=clock) as server,
        closing(Spool(f"sqlite:///{folder}/{NAME}", clock=clock)) as spool,
    ):
        Forwarder(CircuitBreaker("", lambda: server, print), spool, lambda event: None).drain(5)
        assert spool.file.verify() == []
        assert not any(spool.counts()[:2])
        found = {job.json(): job.state for job in server.ask(ListJobs(Filter()))}
        assert len(found) == len(server.ask(ListJobs(Filter())))
        for number in (note["cancelled"] for note in notes if "cancelled" in note):
            assert found.pop(number, "cancelled") == "cancelled"
    cancels = {note["cancel"] for note in notes if "cancel" in note}
    all_or_none(notes, Counter(number for number in found if number not in cancels), cancels)
    return notes


def test_what_was_put_into_a_spool_before_a_power_failure_is_forwarded_once(tmp_path):
    fail_often("spool_life.py", tmp_path, random.Random(SEED), CUTS // 2, STEPS, account_of_a_spool, kept=[SERVER])


# ---- who accounts notices a loss ------------------------------------------------------------------------------------


def unsynced(end):
    """Return a fault: to sync what has a name that ends so does nothing."""
    return lambda call: call.kind == "s" and call.path.endswith(end)


def notices(program, account, tmp_path, **options):
    """Fail the power until something is lost, and the account says so."""
    with pytest.raises((AssertionError, StoreError)) as caught:
        fail_often(program, tmp_path, random.Random(SEED), OF_A_LIFE, STEPS, account, **options)
    assert "the power failed" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "options",
    [
        {"synchronous": "OFF"},
        {"synchronous": "NORMAL"},
        {"fault": unsynced("-wal")},
        {"fault": unsynced(NAME)},
        {"fault": lambda call: call.kind == "s" and "." not in Path(call.path).name},
    ],
    ids=["of anything", "of the log at a commit", "of the log", "of the file", "of the folder"],
)
def test_the_account_of_a_store_notices_a_missing_sync(tmp_path, options):
    notices("store_life.py", account_of_steps, tmp_path, **options)


def test_the_account_of_a_worker_notices_a_missing_sync_at_a_commit(tmp_path):
    notices("worker_life.py", account_of_a_worker, tmp_path, synchronous="NORMAL")


def test_the_account_of_a_spool_notices_a_missing_sync_at_a_commit(tmp_path):
    notices("spool_life.py", account_of_a_spool, tmp_path, synchronous="NORMAL", kept=[SERVER])
