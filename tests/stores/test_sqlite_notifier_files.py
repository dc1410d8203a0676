"""The page of wake-ups and presence: deleted, of several users, closed, forked."""

import math
import threading
from contextlib import ExitStack

import pytest

from pywheel import StoreError
from pywheel.stores.sqlite import page
from tests.jobs.waiting import LIMIT, until
from tests.stores.notifying import FAR, Host, by_owner, ids, settle, settled, workers_of

# ---- files ----------------------------------------------------------------------------------------------------------


def soon(host, monkeypatch):
    """Look for the files at every turn, not four times a second."""
    monkeypatch.setattr("pywheel.stores.sqlite.presence._LOOK", 0)
    host.presence._look_at = 0


def never(host):
    """Do not look for the files by time: only if the page says that it is no longer in use."""
    host.presence._look_at = math.inf


def test_a_deleted_page_is_made_anew_and_all_come_together_again(path, host, other, monkeypatch):
    a, b = host.notifier("t"), other.notifier("t")
    settled(a, b)
    a.publish(FAR)
    b.publish(FAR)
    host.put(1)
    soon(host, monkeypatch)
    workers_of(path).unlink()
    a.beat(0)  # makes it anew, and marks the old one
    assert workers_of(path).exists()
    assert host.presence.page.words[page.LEASE] == page.UNKNOWN
    b.beat(0)  # sees the mark, though it is not yet time to look
    assert host.presence.page._identity == other.presence.page._identity
    for worker in (a, b):
        assert worker.wait(0) is True
        assert worker.hints().reload
        assert {member.worker for member in worker.members()} == {a.worker, b.worker}
    settled(a, b)
    put = other.put_all_over()
    assert [ids(worker.hints()) for worker in (a, b)] == by_owner(put, [a, b])


def test_a_putter_that_still_has_the_deleted_page_tells_who_has_left_it(path, host, other, monkeypatch):
    worker = host.notifier("t")
    worker.publish(100)
    other.put(1)
    settle(worker)
    with other.begun() as turn:
        turn.insert("t", 200)
        assert turn.telling
        soon(host, monkeypatch)
        workers_of(path).unlink()
        worker.beat(0)
        settle(worker)
        worker.publish(300)
    turn.tell()
    assert worker.wait(0) is True
    assert worker.hints().reload


def test_a_worker_that_began_with_a_new_page_learns_what_was_told_to_the_old_one(path, host, other, clock, monkeypatch):
    """Whoever leaves the old page says so: until then its putters knew of nobody else."""
    old = host.notifier("t")
    old.publish(FAR)
    other.put(1)
    never(other)  # as if all that follows took less than a quarter of a second
    workers_of(path).unlink()
    with ExitStack() as stack:
        third = Host(path, clock)
        stack.callback(third.close)
        new = third.notifier("t")
        new.publish(FAR)
        settle(new)  # it has read all that there is
        other.put(1)
        assert new.wait(0) is False
        soon(host, monkeypatch)
        old.beat(0)
        assert new.wait(0) is True
        assert new.hints().reload


def test_the_files_are_gone_after_a_clean_close_but_for_the_page(path, host):
    host.notifier("t").close()
    left = {file.name.removeprefix("jobs.db") for file in path.parent.iterdir()}
    assert left <= {"", "-wal", "-shm", "-workers"}


def test_without_futexes_a_worker_looks_from_time_to_time(host, monkeypatch):
    monkeypatch.setattr(page, "_SYSCALL", None)
    worker = host.notifier("t")
    worker.publish(FAR)
    settle(worker)
    thread = threading.Timer(0.05, host.put, (1,))
    thread.start()
    until(lambda: worker.wait(LIMIT))
    thread.join()
    assert len(worker.hints().due) == 1


def test_a_page_of_another_version_is_refused(path, host):
    host.presence.page.words[page._FORMAT] = 7
    with pytest.raises(StoreError, match="another version"):
        Host(path)
    host.presence.page.words[page._FORMAT] = page._THIS_FORMAT
