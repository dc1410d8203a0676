"""A store that is away says for how long."""

import pickle

import pytest

from pywheel import StoreAway
from pywheel.stores.outage import Outage


@pytest.fixture
def clock(monkeypatch):
    times = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: times[0])
    return times


def test_the_errors_of_an_outage_say_how_long_it_lasts(clock):
    outage = Outage("x://shop@db")
    first = outage.away("refused")
    assert str(first) == "x://shop@db does not answer (refused): start the server, or look at the network between"
    assert first.seconds == 0
    clock[0] += 90
    later = outage.away("timeout", "wait")
    assert str(later) == "x://shop@db has not answered for 90 s (timeout): wait"
    assert later.seconds == 90
    outage.over()
    clock[0] += 5
    assert outage.away("timeout").seconds == 0


def test_an_error_keeps_its_seconds_when_it_is_pickled():
    error = Outage("x://h").away("refused")
    error.seconds = 7.5
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.seconds) == (StoreAway, str(error), 7.5)
