"""Hundreds of histories of clients, a store, workers and a clock. A failure tells its seed, and recurs with it."""

import os

import pytest

from tests.often import often
from tests.seeds import SEED
from tests.worker.simulation import play

HISTORIES = int(os.environ.get("PYWHEEL_SIMULATIONS", "30"))
FROM = SEED * 1_000_000
"""The first seed, but for those of `make test`, which are the same each time."""
CHUNK = 5
FEW = range(FROM, FROM + max(HISTORIES // 50, 1))
STARTS = often([0, *range(FROM, FROM + HISTORIES - CHUNK, CHUNK)])


def play_some(first, **options):
    for seed in range(first, first + CHUNK):
        try:
            play(seed, "memory:", steps=60, **options)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("first", STARTS)
def test_nothing_is_lost_early_twice_or_kept_waiting(first):
    play_some(first)


@pytest.mark.parametrize("first", STARTS)
def test_so_it_is_behind_a_network_that_delays_repeats_and_reorders(first):
    play_some(first, network=True)


@pytest.mark.parametrize("seed", often([0, *FEW]))
def test_so_it_is_in_a_file(seed, tmp_path):
    play(seed, f"sqlite:///{tmp_path}/jobs.db", steps=60)


@pytest.mark.parametrize("seed", FEW)
def test_so_it_is_on_a_server(seed, server):
    play(seed, server.url(), steps=60)


# ---- faults that are planted in the store are noticed: otherwise its success would say little -----------------------


PLAYED = 30  # histories in one of which it comes to that
SAID = {  # a plant: what is said of the history that goes wrong
    "claim given twice": "delivered too often': {[0-9]|one too many",
    "ack dropped": "delivered too often': {[0-9]|was lost unstarted",
    "old body": "has an old body",
    "limit passed": "is one too many",
    "early": "is early",
    "cancel dropped": "was cancelled",
    "put lost": "are gone",
    "order broken": "not in order",
    "priority ignored": "was left, of a higher priority",
}


def histories(plant):
    for seed in range(PLAYED):
        play(seed, "memory:", steps=60, plant=plant)


@pytest.mark.parametrize("plant", SAID)
def test_the_simulation_notices(plant):
    with pytest.raises(AssertionError, match=SAID[plant]):
        histories(plant)
