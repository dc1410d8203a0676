"""Processes on one file that are killed, stopped, told to go and forked at random, and the accounting afterwards."""

import os

import pytest

from tests.seeds import SEED
from tests.stores.network import Proxy
from tests.worker.accounts import Accounts
from tests.worker.storm import ServerStorm, Storm

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
ROUNDS = int(os.environ.get("PYWHEEL_CRASHES", "14"))
SERVER_ROUNDS = int(os.environ.get("PYWHEEL_CRASHES", "8"))


@pytest.mark.stress
def test_whatever_happens_to_processes_no_job_is_lost_early_doubled_or_kept_waiting(tmp_path):
    give_account(Storm(tmp_path, SEED, f"sqlite:///{tmp_path}/jobs.db"), ROUNDS)


@pytest.mark.drawn(1)
def test_so_it_is_on_a_server_that_dies_now_and_then(tmp_path, durable_server):
    with Proxy(durable_server) as proxy:
        storm = ServerStorm(tmp_path, SEED, durable_server, proxy)
        give_account(storm, SERVER_ROUNDS, patience=6_000, silence=4_500)  # a stopped one is missed after four seconds


def give_account(storm, rounds, **patience):
    try:
        storm.rounds(rounds)
        storm.calm_down()
        accounts = Accounts(storm.path, storm.queue, **patience)
    finally:
        storm.end()
    for what, figure in accounts.report().items():
        print(f"{what}: {figure}")
    assert accounts.wrong == []
