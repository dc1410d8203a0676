"""Hundreds of histories of clients, a store, workers and a clock. A failure tells its seed, and recurs with it."""

import os

import pytest

from tests.often import often
from tests.worker.simulation import play

HISTORIES = int(os.environ.get("PYWHEEL_SIMULATIONS", "300"))
FROM = int(os.environ.get("PYWHEEL_SIMULATIONS_FROM", "0"))  # the first seed, behind a network
CHUNK = 10
FEW = 4


@pytest.mark.parametrize("first", often(range(0, HISTORIES, CHUNK)))
def test_nothing_is_lost_early_twice_or_kept_waiting(first):
    for seed in range(first, first + CHUNK):
        try:
            play(seed, "memory:", steps=60)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("first", often(range(FROM, FROM + HISTORIES, FEW * (1 if FROM else 3))))
def test_so_it_is_behind_a_network_that_delays_repeats_and_reorders(first):
    for seed in range(first, first + FEW):
        try:
            play(seed, "memory:", steps=60, network=True)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("seed", often(range(max(HISTORIES // 100, 1))))
def test_so_it_is_in_a_file(seed, tmp_path):
    play(seed, f"sqlite:///{tmp_path}/jobs.db", steps=60)


@pytest.mark.parametrize("seed", range(max(HISTORIES // 100, 1)))
def test_so_it_is_on_a_server(seed, server):
    play(seed, server.url(), steps=60)
