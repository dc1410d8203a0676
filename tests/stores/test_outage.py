"""A store that is away says for how long it has been."""

import pickle

import pytest

from pywheel import StoreAway
from pywheel.stores import open
from pywheel.stores.server import Outage
from tests.jobs.waiting import until
from tests.stores.files import put
from tests.stores.network import Proxy


@pytest.fixture
def clock(monkeypatch):
    times = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: times[0])
    return times


def test_the_errors_of_an_outage_say_how_long_it_lasts_also_when_they_are_pickled(clock):
    outage = Outage("x://db")
    for seconds, said in ((0, "away"), (7.5, "away; away for 8 s by now"), (90, "away; away for 90 s by now")):
        clock[0] = 100.0 + seconds
        outage.noted(error := StoreAway("away"))
        for one in (error, pickle.loads(pickle.dumps(error))):
            assert (type(one), str(one), one.seconds) == (StoreAway, said, seconds)


def test_an_outage_makes_errors_that_say_how_long_it_lasts(clock):
    outage = Outage("x://shop@db")
    first = outage.away("refused")
    assert str(first) == "x://shop@db does not answer (refused): start the server, or look at the network between"
    clock[0] += 90
    later = outage.away("timeout", "wait")
    assert (str(later), later.seconds) == ("x://shop@db has not answered for 90 s (timeout): wait", 90)
    outage.over()
    assert outage.away("timeout").seconds == 0


def test_a_store_whose_network_is_cut_says_for_how_long(server, monkeypatch):
    with Proxy(server) as proxy, open(server.url(via=proxy)) as store:
        put(store)
        proxy.cut()
        with pytest.raises(StoreAway) as first:
            put(store)
        monkeypatch.setattr("pywheel.stores.server._SAID_FROM", 0)

        def longer():
            """Another thread's last answer may be noted after the first error: then the outage begins anew."""
            with pytest.raises(StoreAway, match=r"(away|has not answered) for \d+ s") as later:
                put(store)
            assert "\n" not in str(later.value)
            return later.value.seconds > first.value.seconds

        until(longer)
        proxy.heal()
        put(store)
