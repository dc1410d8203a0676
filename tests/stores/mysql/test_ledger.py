"""Processes on one MariaDB that are killed, stopped, told to go and forked at random, and the accounting afterwards."""

from pywheel.stores.relational.presence import SILENT
from tests.worker.accounts import Accounts
from tests.worker.test_ledger import ROUNDS, SEED, Storm


def test_whatever_happens_to_processes_no_job_is_lost_early_doubled_or_kept_waiting(tmp_path, mariadb_server):
    print(f"PYWHEEL_SEED={SEED}")
    storm = Storm(tmp_path, SEED, mariadb_server.url())
    try:
        storm.rounds(ROUNDS)
        storm.calm_down()
        accounts = Accounts(storm.path, storm.queue, SILENT)
    finally:
        storm.end()
    for what, figure in accounts.report().items():
        print(f"{what}: {figure}")
    print((tmp_path / "errors.txt").read_text()[-3000:])
    assert accounts.wrong == []
