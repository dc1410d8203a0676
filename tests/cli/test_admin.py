"""Commands about the store itself."""

import sqlite3
from contextlib import closing

import pytest

from pywheel import JobQueue, StoreError, __version__, implementation
from pywheel.cli.admin import _able
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
    assert {"file_bytes", "wal_bytes", "schema", "python"} <= record.keys()
    lines = dict(line.split("\t") for line in call("info")[1].splitlines())
    assert lines["path"] == f"{tmp_path}/jobs.db"


def test_workers_lists_who_is_there_and_those_that_are_gone_without_counting_them(says, call, queue, monkeypatch):
    monkeypatch.setattr(Member, "gone", False)  # however long a command takes here
    assert says("workers") == []
    with closing(queue.store.notifier("app1:4711")) as ear:
        began = queue.store.clock.wall()
        queue.store.apply([Announce(ear.worker, ("mail", "close"))])
        ear.beat(began - 5_000)
        [record] = says("workers")
        took = (queue.store.clock.wall() - began) / 1000
        assert (record["host"], record["process"], record["topics"]) == ("app1", 4711, ["close", "mail"])
        assert 0 <= record["silent"] <= took
        assert 5 <= record["behind"] <= 5 + took
        assert not record["room"]
        for beat, room in ((-1, False), (0, True)):  # full, and nothing is late; and with room
            ear.beat(beat)
            [record] = says("workers")
            assert (record["room"], record["behind"]) == (room, 0)
        assert call("workers")[1].splitlines()[0] == "host\tprocess\tlast seen\troom\tbehind\ttopics"
        for gone in (False, True):
            monkeypatch.setattr(Member, "gone", gone)
            assert (says("workers")[0]["gone"], says("info")["workers"]) == (gone, 1 - gone)
        assert call("workers")[1].splitlines()[1].split("\t")[3] == "gone"


def test_a_worker_is_told_to_be_quiet_to_go_on_and_to_stop(says, call, fails, queue, monkeypatch):
    monkeypatch.setattr(Member, "gone", False)  # however long a command takes here
    with closing(queue.store.notifier("app1:4711")) as ear, closing(queue.store.notifier("app1:47115")) as other:
        queue.store.apply([Announce(one.worker, ("mail",)) for one in (ear, other)])
        told = [says("workers", "quiet", "app1:4711"), says("workers", "stop", ear.worker)]
        assert told == [{"worker": ear.worker, "told": "quiet"}, {"worker": ear.worker, "told": "stop"}]
        assert queue.store.ask(GetNote(order_note(ear.worker))) == b"stop"
        assert call("workers", "resume", "app1:4711")[:2] == (0, f"{ear.worker} is told: resume\n")
        for name, said in (("app1", "2 workers"), *((name, "0 workers") for name in ("app1:471", "app", "", "app2"))):
            assert said in fails(1, "workers", "quiet", name)
        assert queue.store.ask(ListNotes("order:")) == []
        queue.store.apply([Announce(ear.worker, (QUIET + "mail",))])
        there = {one["process"]: (one["quiet"], one["topics"]) for one in says("workers")}
        assert there == {4711: (True, ["mail"]), 47115: (False, ["mail"])}
        assert "quiet" in [line.split("\t")[3] for line in call("workers")[1].splitlines()]


def test_of_two_workers_of_a_name_the_one_that_is_there_is_told(call, queue, monkeypatch):
    with closing(queue.store.notifier("pod:1")) as killed, closing(queue.store.notifier("pod:1")) as ear:
        queue.store.apply([Announce(one.worker, ("mail",)) for one in (killed, ear)])
        monkeypatch.setattr(Member, "gone", property(lambda one: one.worker == killed.worker))
        assert call("workers", "quiet", "pod:1") == (0, f"{ear.worker} is told: quiet\n", "")
        code, out, said = call("workers", "quiet", killed.worker)
        assert (code, out, "last seen" in said) == (0, f"{killed.worker} is told: quiet\n", True)


# ---- which store ----------------------------------------------------------------------------------------------------


def test_a_relative_address_is_the_absolute_one_that_is_shown(says, fails, tmp_path, monkeypatch):
    """The option comes before the variable, and that before the default."""
    folder = tmp_path / "a b%41"
    folder.mkdir()
    monkeypatch.chdir(folder)
    says("put", "t")
    assert says("info")["path"] == f"{tmp_path}/jobs.db"
    says("put", "t", "-s", "sqlite:///other.db")
    assert says("info", "--store", "sqlite:///other.db")["path"] == str(folder / "other.db")
    monkeypatch.delenv("PYWHEEL_STORE")
    assert str(folder / "jobs.db") in fails(3, "info")
    says("put", "t")
    assert says("info")["path"] == str(folder / "jobs.db")


def test_a_newline_at_the_end_of_the_variable_is_no_part_of_the_address(says, url, tmp_path, monkeypatch):
    """A secret that `echo` has made ends with one."""
    monkeypatch.setenv("PYWHEEL_STORE", f"{url}\n")
    says("put", "t")
    assert says("info")["path"] == f"{tmp_path}/jobs.db"


@pytest.mark.parametrize("url", ["sqlite:////abs/x.db", "memory:", "sqlite:///", "redis://host/0", "", "sqlite://x"])
def test_what_is_absolute_or_no_file_stays(url):
    assert absolute(url) == url


# ---- long work ------------------------------------------------------------------------------------------------------


@pytest.fixture
def able(queue, monkeypatch):
    """Let the store do what the words say, whatever store it is."""
    init, methods = JobQueue.__init__, {}

    def made(self, *args, **words):
        init(self, *args, **words)
        for name, method in methods.items():
            monkeypatch.setattr(self.store, name, method, raising=False)

    monkeypatch.setattr(JobQueue, "__init__", made)
    return lambda **words: methods.update(words)


def test_vacuum_goes_on_until_there_is_nothing_to_give_back(says, able):
    pages, rewritten = [2_000, 700, 0, 0], []
    able(vacuum=lambda most: pages.pop(0), rewrite=lambda: rewritten.append(True))
    assert says("vacuum")["pages"] == 2_700
    assert says("vacuum", "--rewrite")["pages"] == 0
    assert rewritten == [True]


def test_vacuum_ends_though_pages_become_free_meanwhile(says, able):
    freed = [2_000, 1_999, *[7] * 50]
    able(vacuum=lambda most: freed.pop(0))
    assert says("vacuum")["pages"] == 4_006


def test_backup_makes_a_new_file_and_never_writes_over_one(says, fails, able, tmp_path):
    able(backup=lambda path: path.write_bytes(b"copy"))
    assert says("backup", tmp_path / "copy.db") == {"path": f"{tmp_path}/copy.db", "size": 4}
    assert "exists" in fails(2, "backup", tmp_path / "copy.db")


def test_check_says_what_is_wrong(says, call, fails, able):
    able(check=list)
    assert says("check") == {"damage": []}
    able(check=lambda: ["page 7 is missing"])
    assert fails(1, "check") == "pywheel: page 7 is missing\n"
    assert call("check", "--json")[:2] == (1, '{"damage": ["page 7 is missing"]}\n')


def test_a_store_that_cannot_says_so():
    with JobQueue("memory:") as memory, pytest.raises(StoreError, match="memory: has no backup: `pywheel copy`"):
        _able(memory.store, "backup")
