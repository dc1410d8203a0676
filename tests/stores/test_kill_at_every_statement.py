"""A process is killed before every single statement it sends, making the file included. What it was told is true."""

import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from pywheel.jobs import Counts, NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.jobs.queries import CountJobs, GetJob, GetNote, ListJobs, ListTopics
from pywheel.stores import Filter, open
from pywheel.testing import ManualClock
from tests.isolated.child import run_well
from tests.stores.crash_child import NOW

pytestmark = pytest.mark.stress

CHILD = str(Path(__file__).with_name("crash_child.py"))
AT_MOST = 400


def run_children(url, ledger, numbers):
    """Yield for each number of statements what the process was told, what it had begun, and whether it ended."""
    numbers = map(str, numbers)
    printed = run_well(CHILD, url, ledger, *numbers, timeout=600)
    for line in printed.splitlines():
        at, code = line.split()
        file = Path(ledger.format(at))
        lines = file.read_text().splitlines() if file.exists() else []
        over = lines[-1:] == ["over"]
        assert int(code) == (0 if over else -signal.SIGKILL)
        told = dict(line.split(" ", 2)[1:] for line in lines if line.startswith("end"))
        begun = {line.split()[1] for line in lines if line.startswith("begin")}
        yield at, told, begun, over


def check(url, told, begun):
    """Compare what the store holds with what the process was told before it died."""
    with open(url, clock=ManualClock(wall=NOW)) as store:
        jobs = {job.id: job for job in store.ask(ListJobs(Filter(), 0, 100))}
        purged = "purge" in begun and 2 not in jobs
        assert 2 not in jobs or "purge" not in told
        for number in range(3):
            name = f"put-{number}"
            expected = [2 * number + 1, 2 * number + 2]
            there = [id for id in expected if id in jobs or (id == 2 and purged)]
            assert there in ([expected] if name in told else [[], expected] if name in begun else [[]])
        check_ends(jobs, told, begun)
        check_later(store, jobs, told, begun)
        deliver_the_rest(store, jobs)
        send_again(store, jobs)


def check_ends(jobs, told, begun):
    """Compare the claims and how they ended."""
    state = {id: job.state for id, job in jobs.items()}
    if "cancel-2" in told and "purge" not in begun:
        assert state[2] is State.CANCELLED
    if "claim" in told and "ack" not in begun:
        assert [id for id in state if state[id] is State.RUNNING] == [1, 3, 4, 5]
    if "ack" in told:
        assert state[1] is State.DONE or ("retry" in begun and state[1] is State.DELAYED)
    if "nack" in told:
        assert (jobs[3].attempt, jobs[3].last_error) == (1, "no")
    if "release" in told:
        assert (state[4], jobs[4].attempt) == (State.DELAYED, 0)


def check_later(store, jobs, told, begun):
    """Compare what the plan does with them afterwards."""
    if "successor" in told and "delete" not in begun:
        assert store.ask(GetJob(("t", "k1"))) == jobs[7]
    if "reschedule" in told:
        assert jobs[6].due == NOW - 5
    if "retry" in told:
        assert jobs[1].state is State.DELAYED
    if 1 in jobs:
        old, new = (b"0", 0, jobs[1].attempt), (b"new", 4, 0)
        edited = [new] if "edit" in told else [old, new] if "edit" in begun else [old]
        assert (jobs[1].body, jobs[1].priority, jobs[1].attempt) in edited
    if "hold" in told:
        held, begins = NOW + 1_000, NOW + 10**9
        assert jobs[6].lease_until in ([begins] if "begin" in told else [held, begins] if "begin" in begun else [held])
    if "delete" in told:
        assert 7 not in jobs
    if 6 in jobs:
        assert jobs[6].body in ([b"two"] if "rewrite" in told else [b"2+", b"two"] if "rewrite" in begun else [b"2+"])
    kept = [b"1"] if "keep" in told else [None, b"1"] if "keep" in begun else [None]
    assert store.ask(GetNote("n")) in ([None] if "forget" in told else [None, *kept] if "forget" in begun else kept)
    paused = [topic.paused for topic in store.ask(ListTopics())]
    if "pause" in told and "resume" not in begun:
        assert paused == [True]
    if "resume" in told:
        assert paused == [False]


def recount(store):
    """Count job by job."""
    tally = Counter(job.state for job in store.ask(ListJobs(Filter(), 0, 100)))
    return {"t": Counts(*(tally[state] for state in State))}


def deliver_the_rest(store, before):
    """All that is live is delivered exactly once more; nothing else is."""
    store.apply([ops.Pause("t", False)])
    store.clock.step(timedelta(milliseconds=NOW + 10**9 - store.clock.wall()))
    if before:
        assert store.apply([ops.Put((NewJob("t", b"", NOW),))])[0][0] > max(before)
        assert store.ask(CountJobs()) == recount(store)
    live = sorted(store.ask(ListJobs(Filter(state=State.DELAYED), 0, 100)), key=lambda job: job.id)
    [jobs] = store.apply([ops.Reserve("t", 100, ClaimPolicy(10, 9), "w")]) if before else [[]]
    assert sorted(job.id for job in jobs) == [job.id for job in live]
    assert all(store.apply([ops.Ack(job.id, job.claims) for job in jobs]))
    assert all(not job.state.live for job in store.ask(ListJobs(Filter(), 0, 100)))


def send_again(store, before):
    """A put that happened does not happen again, one that did not does."""
    for number in range(3):
        ids = [2 * number + 1, 2 * number + 2]
        stored = len(store.ask(ListJobs(Filter(), 0, 100)))
        [outcome] = store.apply([ops.Put((NewJob("t", b"", NOW), NewJob("t", b"", NOW)), f"n{number}")])
        if ids[0] in before:
            assert (outcome, len(store.ask(ListJobs(Filter(), 0, 100)))) == (ids, stored)
        else:
            assert len(store.ask(ListJobs(Filter(), 0, 100))) == stored + 2


@pytest.mark.parametrize("part", range(5))
def test_killed_before_any_statement_nothing_told_is_untrue(tmp_path, part):
    url, ledger = f"sqlite:///{tmp_path}/{{}}.db", f"{tmp_path}/{{}}.txt"
    runs = list(run_children(url, ledger, range(1 + part, AT_MOST, 5)))
    for at, told, begun, _ in runs:
        check(url.format(at), told, begun)
    _, told, _, over = runs[-1]
    assert over, "the plan has more statements than were tried"
    assert len(told) == 25


def test_killed_while_a_file_is_made_it_is_made_by_the_next(tmp_path):
    """The statements of opening a file are the first that are traced: the runs above kill among them, too."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    runs = list(run_children(url, f"{tmp_path}/ledger.txt", range(1, 20)))
    assert len(runs) == 19
    assert not any(told for _, told, _, _ in runs)
    with open(url) as store:
        assert store.ask(CountJobs()) == {}
