"""A replica that every commit waits for takes over: no confirmed commit is lost, and processes go on there."""

import time

from tests.seeds import SEED
from tests.worker.accounts import Accounts
from tests.worker.storm import Storm

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


def test_nothing_that_was_told_is_lost_early_doubled_or_kept_waiting(tmp_path, synchronous_pair):
    storm = PromotionStorm(tmp_path, SEED, synchronous_pair)
    try:
        storm.rounds(BLOWS)
        storm.calm_down()
        accounts = Accounts(storm.path, storm.queue, patience=6_000, silence=4_500)
        found = storm.queue.store.verify()
    finally:
        storm.end()
    for what, figure in accounts.report().items():
        print(f"{what}: {figure}")
    assert (accounts.wrong, found) == ([], [])
