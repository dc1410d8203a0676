"""The wall clock of a server, as answers narrow it down."""

import time

import pytest

from pywheel.stores import open
from pywheel.stores.relational.store import RelationalStore
from pywheel.stores.server import ServerClock


@pytest.fixture
def clock(monkeypatch):
    """A clock in a world where the host's stands at 100 s, until `now` says otherwise."""
    world = {"now": 100.0}
    monkeypatch.setattr(time, "monotonic", lambda: world["now"])
    clock = ServerClock()
    clock.world = world
    return clock


def test_before_the_first_answer_it_is_the_hosts():
    assert abs(ServerClock().wall() - time.time() * 1_000) < 1_000


def test_an_answer_says_what_lies_between_the_clocks_to_half_of_its_time(clock):
    clock.heard(5_000.0, 99.0, 100.0)
    assert clock.wall() == 5_000_500
    assert clock.until(5_001_000) == 0.5


def test_a_slow_answer_does_not_blur_what_a_quick_one_said(clock):
    clock.heard(5_000.0, 99.998, 100.0)
    clock.world["now"] = 101.0
    clock.heard(5_000.9, 100.1, 101.0)
    assert abs(clock.wall() - 5_001_001) <= 1


def test_answers_in_whole_milliseconds_are_no_steps_and_narrow_each_other_down(clock):
    for sent in (100.0002, 100.1006, 100.2009):  # the server's clock is 4 900 s ahead
        clock.world["now"] = sent + 0.0001
        clock.heard(int((sent + 4_900) * 1_000) / 1_000, sent, sent + 0.0001, 0.001)
        low, high, _ = clock._known
        assert low <= 4_900 <= high
    assert high - low < 0.0006


def test_what_was_learned_long_ago_gives_way_to_a_clock_that_drifts(clock):
    clock.heard(5_000.0, 99.999, 100.0)
    clock.world["now"] = 10_100.0
    clock.heard(15_000.9, 10_099.9, 10_100.0)  # 0.9 s fast in 10 000 s
    assert abs(clock.wall() - 15_000_925) <= 30


def test_a_step_of_the_servers_clock_is_a_step_here(clock):
    clock.heard(5_000.0, 99.999, 100.0)
    clock.world["now"] = 101.0
    clock.heard(1_000.0, 100.999, 101.0)
    assert clock.wall() == 1_000_000


def test_the_monotonic_side_is_the_hosts(clock):
    clock.heard(5_000.0, 99.999, 100.0)
    assert clock.time() == 100.0


def test_a_server_whose_first_answer_was_slow_is_asked_again(sql_server, monkeypatch):
    asked, run = [], RelationalStore.run

    def slow(store, statement, **more):
        found = run(store, statement, **more)
        if statement.text.startswith("SELECT {now}, "):
            asked.append(statement)
            if len(asked) == 1:
                time.sleep(0.06)
        return found

    monkeypatch.setattr(RelationalStore, "run", slow)
    with open(sql_server.url()):
        assert 2 <= len(asked) <= 3
