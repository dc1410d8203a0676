"""A supervisor that cannot begin says why, once."""

import os
from pathlib import Path

import pytest

from pywheel import BadOption, Supervisor
from pywheel.execution.loading import load
from tests.worker.supervised import HERE

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes of POSIX")


def test_what_is_no_queue_is_refused_when_it_is_imported():
    with pytest.raises(BadOption, match="path in os is not a JobQueue"):
        load("os:path")


@pytest.mark.stress
def test_a_program_that_kills_each_process_that_imports_it_ends_it(shop):
    shop.version("crashing")
    assert shop.start(3).wait(60) == 2
    assert shop.said("WorkersFailed: no worker could begin: killed by SIGKILL")
    assert len(shop.lines("import")) <= 6


@pytest.mark.stress
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_the_store_stands_in_no_command_line_as_it_may_have_a_password(shop, monkeypatch):
    monkeypatch.setenv("SHOP_FOLDER", str(shop.folder))
    monkeypatch.chdir(HERE)
    supervisor = Supervisor("supervised_shop:queue", 1, store=f"sqlite:///{shop.folder}/s3cret.db")
    told = []

    def look():
        for worker in supervisor.workers:
            if worker.ready and not told:  # once stopped it ends at any moment
                told.append(Path(f"/proc/{worker.pid}/cmdline").read_bytes())
                supervisor.stop()

    supervisor.run(look)
    assert b"supervised_shop" in told[0]
    assert b"s3cret" not in told[0]


@pytest.mark.parametrize(
    "options",
    [{"processes": 0}, {"processes": True}, {"processes": "2"}, {"stall": -1}, {"grace": "x"}, {"name": b"x"}],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(BadOption):
        Supervisor("shop:queue", **options)
