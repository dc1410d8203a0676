"""Processes on one Redis that are killed, stopped, told to go and forked at random, and the accounting afterwards."""

import pytest

from tests.seeds import SEED
from tests.worker.accounts import Accounts
from tests.worker.test_ledger import ROUNDS, Storm


@pytest.mark.parametrize("stores", [1, 4])
def test_whatever_happens_to_processes_no_job_is_lost_early_doubled_or_kept_waiting(tmp_path, redis_server, stores):
    storm = Storm(tmp_path, SEED, redis_server.url(stores=stores))
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
