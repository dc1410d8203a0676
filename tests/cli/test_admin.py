"""Commands about the store itself."""

import os
import socket
import sqlite3
from contextlib import closing

import pytest

from pywheel import JobQueue, StoreError, __version__, implementation
from pywheel.cli.options import absolute
from pywheel.jobs.commands import Announce
from pywheel.jobs.queries import QUIET, GetNote, ListNotes, Member
from pywheel.stores.notifier import order_note


def test_info_says_which_store_this_is_and_what_it_promises(says, call, queue, tmp_path):
    queue.put("t")
    record = says("info")
    assert record["store"] == f"sqlite:///{tmp_path}/jobs.db"
    assert record["path"] == f"{tmp_path}/jobs.db"
    assert record["durability"] == queue.store.durability
    assert (record["topics"], record["workers"]) == (1, 0)
    assert (record["version"], record["implementation"]) == (__version__, implementation)
    assert record["sqlite"] == sqlite3.sqlite_version
    assert {"file bytes", "wal bytes", "schema", "python"} <= record.keys()
    lines = dict(line.split("\t") for line in call("info")[1].splitlines())
    assert lines["path"] == f"{tmp_path}/jobs.db"


def test_workers_lists_who_is_there(says, call, queue, monkeypatch):
    monkeypatch.setattr(Member, "gone", False)  # however long a command takes here
    assert says("workers") == []
    with closing(queue.store.notifier(f"{socket.gethostname()}:{os.getpid()}")) as ear:
        queue.store.apply([Announce(ear.worker, ("mail", "close"))])
        ear.beat(queue.store.clock.wall() - 5_000)
        [record] = says("workers")
        assert says("info")["workers"] == 1
        assert (record["host"], record["process"]) == (socket.gethostname(), os.getpid())
        assert record["topics"] == ["close", "mail"]
        assert record["silent"] < 5
        assert 5 <= record["behind"] < 60
        assert not record["room"]
        ear.beat(-1)  # full, and nothing is late
        [record] = says("workers")
        assert (record["room"], record["behind"]) == (False, 0)
        ear.beat(0)
        assert says("workers")[0]["room"]
        assert call("workers")[1].splitlines()[0] == "host\tprocess\tlast seen\troom\tbehind\ttopics"


def test_a_worker_that_has_shown_nothing_for_long_is_listed_as_gone_and_not_counted(says, call, queue, monkeypatch):
    with closing(queue.store.notifier("old")) as ear:
        queue.store.apply([Announce(ear.worker, ("mail",))])
        assert (says("workers")[0]["gone"], says("info")["workers"]) == (False, 1)
        monkeypatch.setattr(Member, "gone", True)
        assert (says("workers")[0]["gone"], says("info")["workers"]) == (True, 0)
        assert call("workers")[1].splitlines()[1].split("\t")[3] == "gone"


def test_a_worker_is_told_to_be_quiet_to_go_on_and_to_stop(says, call, queue, monkeypatch):
    monkeypatch.setattr(Member, "gone", False)  # however long a command takes here
    with closing(queue.store.notifier("app1:4711")) as ear, closing(queue.store.notifier("app1:4712")) as other:
        queue.store.apply([Announce(one.worker, ("mail",)) for one in (ear, other)])
        told = [says("workers", "quiet", "app1:4711"), says("workers", "stop", ear.worker)]
        assert told == [{"worker": ear.worker, "told": "quiet"}, {"worker": ear.worker, "told": "stop"}]
        assert queue.store.ask(GetNote(order_note(ear.worker))) == b"stop"
        assert call("workers", "resume", "app1:4711")[:2] == (0, f"{ear.worker} is told: resume\n")
        assert queue.store.ask(GetNote(order_note(ear.worker))) is None
        for name, said in (("app1", "2 workers"), ("app2", "0 workers")):
            code, _, error = call("workers", "quiet", name)
            assert (code, said in error) == (1, True)
        assert queue.store.ask(ListNotes("order:")) == []
        queue.store.apply([Announce(ear.worker, (QUIET + "mail",)), Announce(other.worker, ("mail",))])
        assert [(one["quiet"], one["topics"]) for one in says("workers")] == [(True, ["mail"]), (False, ["mail"])]
        assert call("workers")[1].splitlines()[1].split("\t")[3] == "quiet"


def test_a_worker_that_has_ended_is_not_taken_for_another_whose_name_begins_so(call, queue):
    with closing(queue.store.notifier("app1:47115")) as ear:
        queue.store.apply([Announce(ear.worker, ("mail",))])
        for name in ("app1:4711", "app", ear.worker[:-1], ""):
            code, _, error = call("workers", "stop", name)
            assert (code, "0 workers" in error) == (1, True)
        assert queue.store.ask(ListNotes("order:")) == []
        assert call("workers", "quiet", "app1")[0] == 0


def test_of_two_workers_of_a_name_the_one_that_is_there_is_told(call, queue, monkeypatch):
    with closing(queue.store.notifier("pod:1")) as killed, closing(queue.store.notifier("pod:1")) as ear:
        queue.store.apply([Announce(one.worker, ("mail",)) for one in (killed, ear)])
        monkeypatch.setattr(Member, "gone", property(lambda one: one.worker == killed.worker))
        assert call("workers", "quiet", "pod:1") == (0, f"{ear.worker} is told: quiet\n", "")
        code, out, said = call("workers", "quiet", killed.worker)
        assert (code, out, "last seen" in said) == (0, f"{killed.worker} is told: quiet\n", True)


# ---- which store ----------------------------------------------------------------------------------------------------


def test_a_relative_address_is_the_absolute_one_that_is_shown(says, call, tmp_path, monkeypatch):
    folder = tmp_path / "a b%41"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYWHEEL_STORE")
    assert call("info")[0] == 3
    assert str(folder / "jobs.db") in call("info")[2]
    says("put", "t")
    assert says("info")["path"] == str(folder / "jobs.db")
    assert (folder / "jobs.db").exists()
    says("put", "t", "-s", "sqlite:///other.db")
    assert (folder / "other.db").exists()


def test_the_option_comes_before_the_variable_and_that_before_the_default(says, tmp_path, monkeypatch):
    says("put", "t")
    assert says("info")["path"] == f"{tmp_path}/jobs.db"
    other = f"sqlite:///{tmp_path}/other.db"
    says("put", "t", "--store", other)
    assert says("info", "--store", other)["path"] == f"{tmp_path}/other.db"


@pytest.mark.parametrize("url", ["sqlite:////abs/x.db", "memory:", "sqlite:///", "redis://host/0", "", "sqlite://x"])
def test_what_is_absolute_or_no_file_stays(url):
    assert absolute(url) == url


# ---- long work ------------------------------------------------------------------------------------------------------


class Kept:
    """What a store with a file can do."""

    def __init__(self):
        self.pages, self.calls = [2_000, 700, 0], []

    def vacuum(self, pages):
        return self.pages.pop(0)

    def rewrite(self):
        self.calls.append("rewrite")

    def backup(self, path):
        path.write_bytes(b"copy")

    def check(self):
        return []


@pytest.fixture
def kept(queue, monkeypatch):
    """A store that has these methods, whatever store it is."""
    kept, init = Kept(), JobQueue.__init__

    def made(self, *args, **words):
        init(self, *args, **words)
        for name in ("vacuum", "rewrite", "backup", "check"):
            monkeypatch.setattr(self.store, name, getattr(kept, name), raising=False)

    monkeypatch.setattr(JobQueue, "__init__", made)
    return kept


def test_vacuum_goes_on_until_there_is_nothing_to_give_back(says, kept):
    assert says("vacuum")["pages"] == 2_700
    kept.pages = [0]
    assert says("vacuum", "--rewrite")["pages"] == 0
    assert kept.calls == ["rewrite"]


def test_backup_makes_a_new_file_and_never_writes_over_one(says, call, kept, tmp_path):
    assert says("backup", tmp_path / "copy.db") == {"path": f"{tmp_path}/copy.db", "size": 4}
    code, _, err = call("backup", tmp_path / "copy.db")
    assert code == 2
    assert "exists" in err


def test_check_says_what_is_wrong(says, call, kept):
    assert says("check") == {"damage": []}
    kept.check = lambda: ["page 7 is missing"]
    code, _, err = call("check")
    assert (code, err) == (1, "pywheel: page 7 is missing\n")
    assert call("check", "--json")[:2] == (1, '{"damage": ["page 7 is missing"]}\n')


def test_a_store_that_cannot_says_so(call, queue, monkeypatch):
    from pywheel.cli.admin import _able

    with JobQueue("memory:") as memory, pytest.raises(StoreError, match="memory: has no backup: `pywheel copy`"):
        _able(memory.store, "backup")
