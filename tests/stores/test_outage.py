"""A store that is away says for how long it has been."""

import pickle

import pytest

from pywheel import StoreAway
from pywheel.stores import open
from pywheel.stores.server import Outage
from tests.stores.files import put
from tests.stores.network import Proxy


@pytest.fixture
def clock(monkeypatch):
    times = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: times[0])
    return times


def asked(outage, error):
    """Ask a server that does not answer; return the error."""
    outage.noted(error)
    return error


def test_the_errors_of_an_outage_say_how_long_it_lasts(clock):
    outage = Outage("x://db")
    first = asked(outage, StoreAway("x://db does not answer"))
    assert (str(first), first.seconds) == ("x://db does not answer", 0)
    clock[0] += 90
    later = asked(outage, StoreAway("x://db does not answer"))
    assert (str(later), later.seconds) == ("x://db does not answer; away for 90 s by now", 90)


def test_an_outage_makes_errors_that_say_how_long_it_lasts(clock):
    outage = Outage("x://shop@db")
    first = outage.away("refused")
    assert str(first) == "x://shop@db does not answer (refused): start the server, or look at the network between"
    clock[0] += 90
    later = outage.away("timeout", "wait")
    assert (str(later), later.seconds) == ("x://shop@db has not answered for 90 s (timeout): wait", 90)
    outage.over()
    assert outage.away("timeout").seconds == 0


def test_an_error_keeps_its_seconds_when_it_is_pickled(clock):
    outage = Outage("x://db")
    asked(outage, StoreAway("away"))
    clock[0] += 7.5
    error = asked(outage, StoreAway("away"))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.seconds) == (StoreAway, "away; away for 8 s by now", 7.5)


def test_a_store_whose_network_is_cut_says_for_how_long(server, monkeypatch):
    with Proxy(server) as proxy, open(server.url(via=proxy)) as store:
        put(store)
        proxy.cut()
        with pytest.raises(StoreAway) as first:
            put(store)
        monkeypatch.setattr("pywheel.stores.server._SAID_FROM", 0)
        with pytest.raises(StoreAway, match=r"(away|has not answered) for \d+ s") as later:
            put(store)
        assert later.value.seconds > first.value.seconds
        assert "\n" not in str(later.value)
        proxy.heal()
        put(store)
