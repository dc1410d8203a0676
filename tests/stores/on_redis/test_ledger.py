"""Processes on several stores that are killed, stopped, told to go and forked at random, and the accounting afterwards.

Of one store on a server, which dies now and then too, `tests/worker/test_ledger.py` tells.
"""

from tests.seeds import SEED
from tests.worker.accounts import Accounts
from tests.worker.test_ledger import ROUNDS, Storm


def test_whatever_happens_to_processes_no_job_is_lost_early_doubled_or_kept_waiting(tmp_path, redis_server):
    storm = Storm(tmp_path, SEED, redis_server.url(stores=4))
    try:
        storm.rounds(ROUNDS)
        storm.calm_down()
        accounts = Accounts(storm.path, storm.queue, patience=6_000, silence=4_500)
    finally:
        storm.end()
    for what, figure in accounts.report().items():
        print(f"{what}: {figure}")
    print((tmp_path / "errors.txt").read_text()[-3000:])
    assert accounts.wrong == []
