"""A replica that every commit waits for takes over: no confirmed commit is lost, and processes go on there."""

import time

import pytest

from tests.seeds import SEED
from tests.worker.storm import Storm
from tests.worker.test_ledger import give_account

BLOWS = 4


class PromotionStorm(Storm):
    """Processes that are killed and stopped, and whose primary dies in the midst of it."""

    def __init__(self, folder, seed, pair):
        self.pair = pair
        super().__init__(folder, seed, pair.url())

    def harm_the_store(self):
        """Nothing but the promotion harms it."""

    def rounds(self, count):
        super().rounds(count)
        since = time.time() * 1000
        self.pair.fail_over()
        self.pen.note("away", since=since, who="promotion")
        super().rounds(count)

    def calm_down(self):
        super().calm_down()
        assert self.queue.store.verify() == []


@pytest.mark.drawn(1)
def test_nothing_that_was_told_is_lost_early_doubled_or_kept_waiting(tmp_path, synchronous_pair):
    storm = PromotionStorm(tmp_path, SEED, synchronous_pair)
    give_account(storm, BLOWS, patience=6_000, silence=4_500)
