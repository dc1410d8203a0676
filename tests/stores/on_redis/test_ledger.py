"""Processes on several stores that are killed, stopped, told to go and forked at random, and the accounting afterwards.

Of one store on a server, which dies now and then too, `tests/worker/test_ledger.py` tells.
"""

from tests.seeds import SEED
from tests.worker.storm import Storm
from tests.worker.test_ledger import ROUNDS, give_account


def test_whatever_happens_to_processes_no_job_is_lost_early_doubled_or_kept_waiting(tmp_path, redis_server):
    storm = Storm(tmp_path, SEED, redis_server.url(stores=4))
    give_account(storm, ROUNDS, patience=6_000, silence=4_500)
