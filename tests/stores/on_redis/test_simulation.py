"""Histories of clients, a store on Redis, workers and a clock."""

import pytest

from tests.worker.simulation import play
from tests.worker.test_simulation import HISTORIES


@pytest.mark.parametrize("seed", range(max(HISTORIES // 100, 1)))
def test_nothing_is_lost_early_twice_or_kept_waiting(seed, redis_server):
    play(seed, redis_server.url(), steps=60)
