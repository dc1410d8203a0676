from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywheel import BadOption
from pywheel.jobs.durations import LONGEST
from pywheel.jobs.retry import DEFAULT, Exponential, Fixed, Ladder, policy_of


def test_a_ladder_goes_up_step_by_step_and_stays_on_the_last():
    ladder = Ladder("5s", "30s", "1m")
    assert [ladder.delay(attempt) for attempt in range(1, 6)] == [5_000, 30_000, 60_000, 60_000, 60_000]
    assert ladder.max_attempts == 4
    assert (Ladder().max_attempts, Ladder().delay(1)) == (1, 0)


def test_policies_of_one_kind_with_the_same_values_are_equal():
    same = (lambda: Ladder("5s", jitter=0.1)), (lambda: Fixed(5, attempts=2)), Exponential
    for make in same:
        assert make() == make()
        assert hash(make()) == hash(make())
    assert Ladder("5s") != Ladder("5s", jitter=0.1)
    assert Ladder("5s") != Ladder("6s")
    assert Ladder("5s") != Fixed("5s", attempts=2)
    one = policy_of(lambda job, error: 1)
    assert one == policy_of(one.function) != policy_of(lambda job, error: 1)


def test_fixed_waits_the_same_each_time_and_exponential_grows_up_to_its_limit():
    assert Fixed("10s", attempts=3).delays == (10_000, 10_000)
    policy = Exponential(1, factor=3, longest=20, attempts=6, jitter=0)
    assert policy.delays == (1_000, 3_000, 9_000, 20_000, 20_000)


def test_exponential_does_not_overflow_at_any_attempt():
    policy = Exponential("1ms", factor=1000, longest="50000d", attempts=10_000)
    assert max(policy.delays) <= LONGEST
    assert policy.delay(10**9) <= LONGEST


def test_the_default_ends_after_days():
    assert DEFAULT.max_attempts == 10
    assert DEFAULT.delays[0] == 5_000
    assert DEFAULT.delays[-1] == 172_800_000


@given(st.integers(-5, 2000), st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_jitter_spreads_around_the_delay(attempt, jitter, draw):
    policy = Fixed(10, attempts=5, jitter=jitter)
    with patch("random.random", return_value=draw):
        assert 10_000 * (1 - jitter) - 1 <= policy.delay(attempt) <= 10_000 * (1 + jitter) + 1


@pytest.mark.parametrize(
    ("policy", "arguments", "options"),
    [
        (Ladder, ["5 apples"], {}),
        (Ladder, [-1], {}),
        (Ladder, [True], {}),
        (Ladder, [1], {"jitter": 2}),
        (Fixed, [1], {"attempts": 0}),
        (Fixed, [1], {"attempts": True}),
        (Exponential, [1], {"factor": 0.5}),
        (Exponential, [1], {"factor": float("nan")}),
        (Exponential, [1], {"jitter": -0.1}),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(policy, arguments, options):
    with pytest.raises(BadOption):
        policy(*arguments, **options)
