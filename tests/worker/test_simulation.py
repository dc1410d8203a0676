"""Hundreds of histories of clients, a store, workers and a clock. A failure tells its seed, and recurs with it."""

import os

import pytest

from tests.often import often
from tests.seeds import SEED
from tests.worker.simulation import play

HISTORIES = int(os.environ.get("PYWHEEL_SIMULATIONS", "120"))
FROM = SEED * 1_000_000
"""The first seed, but for those of `make test`, which are the same each time."""
CHUNK = 5
FEW = range(FROM, FROM + max(HISTORIES // 50, 1))
STARTS = often([0, *range(FROM, FROM + HISTORIES - CHUNK, CHUNK)])


@pytest.mark.parametrize("first", STARTS)
def test_nothing_is_lost_early_twice_or_kept_waiting(first):
    for seed in range(first, first + CHUNK):
        try:
            play(seed, "memory:", steps=60)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("first", STARTS)
def test_so_it_is_behind_a_network_that_delays_repeats_and_reorders(first):
    for seed in range(first, first + CHUNK):
        try:
            play(seed, "memory:", steps=60, network=True)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("seed", often([0, *FEW]))
def test_so_it_is_in_a_file(seed, tmp_path):
    play(seed, f"sqlite:///{tmp_path}/jobs.db", steps=60)


@pytest.mark.parametrize("seed", FEW)
def test_so_it_is_on_a_server(seed, server):
    play(seed, server.url(), steps=60)
