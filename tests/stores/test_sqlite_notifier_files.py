"""The page of wake-ups and presence: deleted, of several users, closed, forked."""

import math
import os
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pywheel import StoreError
from pywheel.stores.sqlite import page
from tests.jobs.waiting import LIMIT, until
from tests.stores.notifying import FAR, Host, by_owner, child, ids, mode_of, settle, settled, workers_of

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


def test_a_page_that_somebody_else_made_is_found(path, host, monkeypatch):
    worker = host.notifier("t")
    workers_of(path).unlink()
    with ExitStack() as stack:
        stranger = Host(path, host.presence._clock)
        stack.callback(stranger.close)
        took = stranger.notifier("t")
        assert took.worker.startswith("w@0.")
        soon(host, monkeypatch)
        worker.beat(0)
        assert {member.worker for member in took.members()} == {took.worker, worker.worker}
        settled(worker, took)
        worker.publish(FAR)
        took.publish(FAR)
        put = stranger.put_all_over()
        for one, mine in zip((worker, took), by_owner(put, [worker, took]), strict=True):
            assert one.wait(LIMIT) is True
            assert ids(one.hints()) == mine


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


def test_nothing_raises_after_the_commit(host, monkeypatch):
    worker = host.notifier("t")
    worker.publish(FAR)
    host.put(1)
    settle(worker)
    with host.begun() as turn:
        turn.insert("t", 1)

    def broken(*args):
        raise StoreError("not now")

    monkeypatch.setattr(host.presence, "audience", broken)
    turn.tell()
    assert worker.wait(0) is True
    assert worker.hints().reload


def test_a_page_of_another_version_is_refused(path, host):
    host.presence.page.words[page._FORMAT] = 7
    with pytest.raises(StoreError, match="another version"):
        Host(path)
    host.presence.page.words[page._FORMAT] = page._THIS_FORMAT


@pytest.mark.skipif(os.name == "nt", reason="no such modes")
@pytest.mark.parametrize("umask", [0o077, 0o022, 0])
def test_the_files_have_the_mode_of_the_database(path, umask):
    before = os.umask(umask)
    try:
        path.touch()
        path.chmod(0o660)
        host = Host(path)
        host.notifier("t")
        assert mode_of(workers_of(path)) == 0o660
        host.close()
    finally:
        os.umask(before)


SHARED = """
import os, sys
from tests.stores.notifying import *
path, group, user = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.umask(0o077)
os.setgroups([group])
os.setegid(user)
os.seteuid(user)
host = Host(path)
worker = host.notifier("t")
worker.publish(10**9)
print(worker.worker, flush=True)
while not (worker.wait(0.2) and worker.hints().due):
    worker.beat(0)
print("heard", flush=True)
sys.stdin.read()
"""


@pytest.mark.stress
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can be two other users")
def test_two_users_of_a_group_ring_each_other():
    with TemporaryDirectory() as name:  # pytest's own is for one user
        two_users(Path(name))


def two_users(folder):
    os.chown(folder, -1, 4242)
    folder.chmod(0o2775)
    path = folder / "jobs.db"
    path.touch()
    os.chown(path, 5001, 4242)
    path.chmod(0o660)
    with ExitStack() as stack:
        users = []
        for user in (5001, 5002):
            users.append(stack.enter_context(child("-c", SHARED, path, 4242, user)))
            assert users[-1].stdout.readline().startswith("w@")
        assert mode_of(workers_of(path)) == 0o660
        assert workers_of(path).stat().st_gid == 4242
        host = Host(path)
        host.put_all_over()
        heard = [one.stdout.readline() for one in users]
        assert heard == ["heard\n", "heard\n"]
        host.close()


# ---- life -----------------------------------------------------------------------------------------------------------


def test_close_ends_a_wait_and_the_rest_does_nothing(host):
    worker = host.notifier("t")
    waits = [threading.Thread(target=worker.wait, args=(LIMIT,)) for _ in range(2)]
    for thread in waits:
        thread.start()
    host.presence.close()
    for thread in waits:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert worker.wait(LIMIT) is False
    worker.publish(1)
    worker.beat(1)
    worker.ring(worker.worker)
    worker.quiet()
    worker.wake()
    worker.close()
    for query in (worker.members, worker.hints, lambda: host.presence.quiet("t", 1)):
        with pytest.raises(StoreError, match="closed"):
            query()


def use(worker, errors):
    try:
        for _ in range(200):
            worker.wait(0.0001)
            worker.beat(0)
            worker.wake()
            worker.ring(worker.worker)
    except BaseException as error:
        errors.append(error)


def test_closing_while_another_thread_uses_it_touches_no_descriptor_of_others(path):
    errors = []
    for _ in range(20):
        host = Host(path)
        worker = host.notifier("t")
        threads = [threading.Thread(target=use, args=(worker, errors)) for _ in range(3)]
        for thread in threads:
            thread.start()
        host.presence.close()
        ends = [end for _ in range(10) for end in socket.socketpair()]  # they get the numbers
        for thread in threads:
            thread.join(LIMIT)
        for end in ends:
            end.setblocking(False)
            with pytest.raises(BlockingIOError):
                end.recv(1)
        for end in ends:
            end.close()
        host.close()
    assert errors == []


@pytest.mark.stress
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_nothing_of_its_parents(path, host):
    worker = host.notifier("t")
    settle(worker)
    process = os.fork()
    if process == 0:
        try:
            host.presence.after_fork()  # as a store does
            assert worker.wait(LIMIT) is False
            worker.publish(77)
            worker.beat(77)
            worker.wake()
            worker.ring(worker.worker)
            worker.close()
            host.presence.close()
            with pytest.raises(StoreError):
                worker.hints()
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(process, 0)[1] == 0
    assert worker.wait(0) is False
    [member] = worker.members()
    assert member.behind == 0
    worker.publish(5)
    assert host.furthest() == 5
    host.presence.ring([0])
    assert worker.wait(LIMIT) is True
