"""The accounting of the ledger notices each fault that is planted in the stores of its processes."""

import os

import pytest

from tests.seeds import SEED
from tests.worker.accounts import Accounts
from tests.worker.ledger import LIMITED, TOPICS, lines
from tests.worker.storm import Storm

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]
CALLS = 250  # of producers, after which a fault has had its chance


def kinds(folder, plant, calls=CALLS, topics=TOPICS, workers=1, excuses=False):
    """Return of what kinds the faults are that the accounting finds.

    Where a fault is to be found, the machine is no excuse: on a busy one each lost lease might be its doing.
    """
    storm = Storm(folder, SEED, f"sqlite:///{folder}/jobs.db", workers=0, producers=4, plant=plant, topics=topics)
    try:
        storm.workers += [storm.worker(list(TOPICS[:-1]), at_once=8) for _ in range(workers)]
        while len(lines(storm.path)["told"]) < calls:
            storm.let_pass(0.2)
        storm.calm_down()
        accounts = Accounts(storm.path, storm.queue, excuses=excuses)
    finally:
        storm.end()
    print(accounts.wrong[:5])
    return {text.partition(":")[0] for text in accounts.wrong}


@pytest.mark.parametrize(
    ("plants", "said", "more"),
    [
        ("claim given twice, early, put lost", {"twice", "early", "lost"}, {}),
        ("ack dropped, cancel dropped, old body", {"lost lease", "cancelled", "old body"}, {"calls": 800}),
        ("limit passed", {"limit"}, {"topics": (LIMITED,)}),
    ],
)
def test_the_ledger_notices(tmp_path, plants, said, more):
    """Faults that are told apart by what is said of them."""
    assert said <= kinds(tmp_path, plants, **more)
