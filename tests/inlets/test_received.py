"""The due time in a message."""

from datetime import UTC, datetime

import pytest

from pywheel import BadJob
from pywheel.inlets.received import nonce_of, when

SENT = 1_700_000_000_000


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({}, 0), ({"x-delay": None}, 0), ({"x-delay": 5_000}, 5_000), ({"x-delay": "5000"}, 5_000),
        ({"x-delay": 5_000.7}, 5_000), ({"x-delay": 0}, 0), ({"x-delay": -5_000}, 0),
        ({"pywheel-delay": 1.5}, 1_500), ({"pywheel-delay": "1.5"}, 1_500), ({"pywheel-delay": "30m"}, 1_800_000),
        ({"pywheel-delay": "1h 30m"}, 5_400_000), ({"pywheel-delay": -1}, 0),
    ],
)  # fmt: skip
def test_a_delay_counts_from_when_the_job_is_stored_or_the_message_was_sent(headers, delay):
    assert when(headers, None) == (0, delay)
    says_nothing = set(headers.values()) <= {None}
    assert when(headers, SENT) == ((0, 0) if says_nothing else (SENT + delay, None))


@pytest.mark.parametrize("value", ["2030-01-31T06:00:00+00:00", datetime(2030, 1, 31, 6, tzinfo=UTC)])
def test_a_time_is_a_time(value):
    assert when({"pywheel-at": value}, SENT) == (1_896_069_600_000, None)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"x-delay": "soon"}, "x-delay must be whole ms"), ({"x-delay": True}, "x-delay must be whole ms"),
        ({"x-delay": [1]}, "x-delay must be whole ms"), ({"x-delay": float("nan")}, "x-delay must be whole ms"),
        ({"x-delay": float("inf")}, "x-delay must be whole ms"), ({"x-delay": 10**18}, "x-delay must be whole ms"),
        ({"x-delay": b"\xff"}, "x-delay must be whole ms"), ({"x-delay": "9" * 10_000}, "x-delay must be whole ms"),
        ({"pywheel-delay": "soon"}, "pywheel-delay 'soon' is not understood"),
        ({"pywheel-delay": "nan"}, "pywheel-delay"), ({"pywheel-delay": {}}, "pywheel-delay must be seconds"),
        ({"pywheel-at": "tomorrow"}, "pywheel-at 'tomorrow'"),
        ({"pywheel-at": "2030-01-31T06:00:00"}, "has no time zone"),
        ({"pywheel-at": 5}, "pywheel-at must be a datetime"),
        ({"x-delay": 1, "pywheel-delay": 1}, "x-delay and pywheel-delay: give one"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said(headers, said):
    with pytest.raises(BadJob, match=said):
        when(headers, None)


def test_a_nonce_is_of_all_parts_and_of_where_they_end():
    assert nonce_of("a", "b") == nonce_of("a", b"b")
    assert len({nonce_of("a", "b"), nonce_of("ab", ""), nonce_of("", "ab"), nonce_of("a:b")}) == 4
    assert len(nonce_of("x" * 10_000)) <= 200
