"""The transitions of a job, as facts that hold for any numbers."""

from hypothesis import given
from hypothesis import strategies as st

from pywheel.jobs import lifecycle
from pywheel.jobs.job import State
from pywheel.jobs.lifecycle import LOST_BEGUN, LOST_HELD, NEVER_LOST, RELEASED, Run

MS = st.integers(0, 10**13)
RUNS = st.builds(
    Run,
    claim=st.integers(1, 50),
    attempt=st.integers(1, 50),
    begun=st.booleans(),
    lease=MS,
    max_attempts=st.integers(1, 50),
    backoff=st.integers(0, 10**9),
)


@given(RUNS)
def test_a_lost_claim_is_due_again_or_dead(run):
    ending = lifecycle.lost(run)
    if not run.begun:
        assert ending == (State.DELAYED, None, False, LOST_HELD)
    elif run.attempt < run.max_attempts:
        assert ending == (State.DELAYED, run.lease + run.backoff, True, LOST_BEGUN)
    else:
        assert ending == (State.DEAD, None, True, LOST_BEGUN)


@given(RUNS, MS, st.none() | st.integers(0, 10**9))
def test_a_failed_claim_spends_an_attempt_and_is_no_suspect(run, now, delay):
    ending = lifecycle.failed(run, now, delay)
    assert (ending.spent, ending.lost) == (True, NEVER_LOST)
    if delay is None or run.attempt >= run.max_attempts:
        assert (ending.state, ending.due) == (State.DEAD, None)
    else:
        assert (ending.state, ending.due) == (State.DELAYED, now + delay)


@given(RUNS, MS)
def test_a_reader_sees_a_claim_running_until_its_lease_is_over(run, now):
    assert lifecycle.seen(run, now) is (State.RUNNING if now < run.lease else lifecycle.lost(run).state)
    assert lifecycle.seen(run, run.lease) is not State.RUNNING
    assert lifecycle.seen(run, run.lease - 1) is State.RUNNING


def test_a_claim_given_back_spends_nothing():
    assert RELEASED == (State.DELAYED, None, False, NEVER_LOST)


@given(st.lists(st.integers(0, 10**9), max_size=5), st.integers(-3, 20), st.floats(0, 1), st.floats(-1, 1))
def test_a_backoff_goes_by_the_attempt_within_its_jitter(delays, attempt, jitter, draw):
    wait = lifecycle.backoff(delays, attempt, jitter, draw)
    if not delays:
        assert wait == 0
        return
    base = delays[min(max(attempt, 1), len(delays)) - 1]
    assert wait >= 0
    assert base * (1 - jitter) - 1 <= wait <= base * (1 + jitter) + 1
    assert lifecycle.backoff(delays, attempt, 0, draw) == base


@given(MS, MS, st.none() | MS)
def test_a_delay_counts_from_now_and_comes_before_a_due_time(now, due, delay):
    assert lifecycle.due(now, due, delay) == (due if delay is None else now + delay)


LOST = st.sampled_from((NEVER_LOST, LOST_HELD, LOST_BEGUN))


@given(st.lists(LOST), st.integers(0, 9), st.integers(0, 4))
def test_a_choice_begins_with_a_prefix_and_holds_no_suspect(lost, begin, suspects):
    taken, begun, left = lifecycle.choose(lost, [1] * len(lost), begin, suspects, len(lost))
    assert sorted(taken + left) == list(range(len(lost)))
    assert taken == sorted(taken)
    assert left == sorted(left)
    assert begun == min(begin, len(taken))
    assert not any(lost[place] for place in taken[begun:])
    assert sum(lost[place] == LOST_BEGUN for place in taken) <= suspects
    for place in left:
        before = [other for other in taken if other < place]
        spent = sum(lost[other] == LOST_BEGUN for other in before) == suspects and lost[place] == LOST_BEGUN
        assert lost[place]
        assert spent or len(before) >= begin


@given(st.lists(st.tuples(LOST, st.integers(0, 9))), st.integers(0, 9), st.integers(0, 4), st.integers(-1, 30))
def test_a_choice_ends_before_it_has_too_many_bytes(jobs, begin, suspects, most):
    lost, sizes = [job[0] for job in jobs], [job[1] for job in jobs]
    whole = lifecycle.choose(lost, sizes, begin, suspects, sum(sizes))
    part = lifecycle.choose(lost, sizes, begin, suspects, most)
    count = len(part.taken)
    assert part.taken == whole.taken[:count]
    assert part.begun == min(begin, count)
    assert sorted(part.taken + part.left) == list(range(len(jobs)))
    assert count <= 1 or sum(sizes[place] for place in part.taken) <= most
    if count < len(whole.taken):
        assert count > 0
        assert sum(sizes[place] for place in whole.taken[: count + 1]) > most
