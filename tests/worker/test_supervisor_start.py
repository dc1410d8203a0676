"""A supervisor that cannot begin says why, once."""

import os
from pathlib import Path

import pytest

from pywheel import BadOption, Supervisor
from tests.jobs.waiting import alive, until
from tests.worker.supervised import HERE

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes of POSIX")


@pytest.mark.stress
@pytest.mark.parametrize(
    ("target", "options", "error"),
    [
        ("no_such_shop:queue", {}, "BadOption: there is no module no_such_shop: run this where it can be imported"),
        ("supervised_shop:nothing", {}, "BadOption: there is no nothing in supervised_shop"),
        ("supervised_shop", {}, "BadOption: 'supervised_shop' names no queue"),
        ("supervised_shop:queue", {"topics": ["mial"]}, "BadOption: no handler for 'mial': there are "),
        ("supervised_shop:queue", {"grase": 5}, "WorkersFailed: no worker could begin: TypeError"),
        ("supervised_shop:queue", {"store": "sqlite:////no/such/folder/jobs.db"}, "NotAStore"),
    ],
)
def test_an_error_at_the_start_is_said_once_and_ends_it(shop, target, options, error):
    supervisor = shop.start(3, target, **options)
    assert supervisor.wait(60) != 0
    assert shop.errors.read_text().count(error) == 1 or ("grase" in options and shop.said(error))
    until(lambda: not any(map(alive, shop.pids())))


@pytest.mark.stress
@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("broken", "WorkersFailed: no worker could begin: RuntimeError: the new version is broken"),
        ("crashing", "WorkersFailed: no worker could begin: killed by SIGKILL"),
    ],
)
def test_a_program_that_nobody_can_import_ends_it(shop, version, error):
    shop.version(version)
    assert shop.start(3).wait(60) == 2
    assert shop.said(error)
    assert shop.errors.read_text().count("Traceback") == (version == "broken")
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
