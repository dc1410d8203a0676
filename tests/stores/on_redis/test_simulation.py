"""Histories of clients, a store on Redis, workers and a clock."""

import pytest

from tests.worker.simulation import play
from tests.worker.test_simulation import HISTORIES


@pytest.mark.parametrize("stores", [1, 4])
@pytest.mark.parametrize("seed", range(max(HISTORIES // 100, 1)))
def test_nothing_is_lost_early_twice_or_kept_waiting(seed, stores, redis_server):
    play(seed, redis_server.url(stores=stores), steps=60)
