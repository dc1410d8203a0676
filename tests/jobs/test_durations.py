import math
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywheel import BadJob, BadOption, PywheelError
from pywheel._seconds import signed_ns
from pywheel.jobs.durations import LONGEST, delay_ms, duration, moment
from pywheel.jobs.retry import Fixed, Ladder


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((0, 0), (1, 1_000), (0.1, 100), (0.0001, 1), (1.0005, 1_001), (Fraction(1, 3), 334)),
        *(("0s", 0), ("500ms", 500), ("30m", 1_800_000), ("2d", 172_800_000), ("1w", 604_800_000)),
        *(("1.5h", 5_400_000), ("1h 30m", 5_400_000), ("0.1s 0.2s", 300)),
        *((timedelta(days=2), 172_800_000), (timedelta(microseconds=1), 1)),
    ],
)
def test_a_duration_is_understood_and_rounded_up(value, expected):
    assert duration(value, "ttr") == delay_ms(value) == expected


@pytest.mark.parametrize("value", [-1, -0.5, -1e9, timedelta(days=-1), -(10**400), "-5s", "-1h 30m", "-54000d"])
def test_a_negative_delay_means_due_at_once_and_a_negative_ttr_means_nothing(value):
    assert delay_ms(value) == 0
    with pytest.raises(BadJob, match="ttr must not be negative"):
        duration(value, "ttr")


@pytest.mark.parametrize("value", [0, 0.0, "0s", timedelta(0)])
def test_a_length_of_time_is_at_least_what_it_must_be(value):
    assert duration(value, "keep") == 0
    with pytest.raises(BadJob, match="ttr must be 1 ms or more, and is "):
        duration(value, "ttr", 1)
    assert duration(1e-6, "ttr", 1) == 1


@pytest.mark.parametrize("value", [10**400, 147 * 366 * 86_400.0, timedelta(days=147 * 366), "54000d", "1" * 99 + "s"])
def test_jobs_and_timers_have_the_same_longest_duration(value):
    assert LONGEST == 2**62 // 10**6
    for parse in (delay_ms, lambda value: duration(value, "ttr")):
        with pytest.raises(BadJob, match="146 years"):
            parse(value)


@given(st.floats(min_value=0, max_value=2e5))
def test_the_quick_way_of_a_float_is_the_way_of_all_numbers(seconds):
    """To the nanosecond that both let go."""
    exact = signed_ns(seconds, "delay")
    assert exact - 2 <= delay_ms(seconds) * 1_000_000 < exact + 1_000_000 + 2


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, -math.inf, 1e300, None, True, b"5s", []),
        *("", "30", "m", "-", "-5", "--5s", "1h -5m", "5 minutes", "1e3s", "٣s", "9" * 400 + "s"),
    ],
)
def test_what_is_no_duration_is_refused_in_one_line(value):
    with pytest.raises(BadJob) as caught:
        duration(value, "ttr")
    with pytest.raises(BadJob):
        delay_ms(value)
    assert isinstance(caught.value, PywheelError)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


LONGEST_TEXT = "1h " * 32 + "2.5s"  # 100 characters


@pytest.mark.parametrize("parse", [delay_ms, lambda value: duration(value, "delay"), Ladder, Fixed])
def test_a_duration_has_a_hundred_characters_at_most(parse):
    parse(LONGEST_TEXT)
    error = BadOption if parse in (Ladder, Fixed) else BadJob
    for text in (f"{LONGEST_TEXT} ", "1h " * 700_000, " " * 2_000_000, "-" + "1" * 100 + "s"):
        with pytest.raises(error, match=r" has \d+ characters, at most 100 are allowed"):
            parse(text)


@given(st.floats(min_value=0, max_value=LONGEST / 1000, allow_nan=False))
def test_a_duration_is_never_shortened(seconds):
    assert duration(seconds, "ttr") >= seconds * 1000 - 1.001e-6 * max(seconds, 1)  # a nanosecond is dust


def test_a_moment_is_the_same_in_every_time_zone():
    utc = datetime(2026, 1, 2, 3, 4, 5, 600_001, tzinfo=UTC)
    assert moment(utc) == moment(utc.astimezone(timezone(timedelta(hours=-7)))) == 1_767_323_045_601


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), datetime(1969, 1, 1, tzinfo=UTC), "2026-01-01", 5])
def test_a_naive_datetime_and_what_is_none_is_refused(value):
    with pytest.raises(BadJob):
        moment(value)
