"""Wake-ups and presence of the SQLite store: who is rung, who reads which hint, and who is there."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from pywheel import StoreError
from pywheel.clock import ManualClock
from pywheel.jobs.commands import Announce
from pywheel.jobs.job import SHARDS, shard_of
from pywheel.stores.ownership import owners
from pywheel.stores.sqlite import bell, presence_page
from pywheel.stores.sqlite.presence_page import SLOTS
from tests.stores.notifying import LIMIT, Host, settle, until

FAR = 10**9


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def host(path, clock):
    host = Host(path, clock)
    yield host
    host.close()


@pytest.fixture
def other(path, clock, host):
    """The same file, opened once more: as another process would."""
    other = Host(path, clock)
    yield other
    other.close()


def settled(*notifiers):
    for notifier in notifiers:
        settle(notifier)


def names(notifiers):
    return [notifier.worker for notifier in notifiers]


def by_owner(ids, notifiers, topic="t"):
    """Return the ids that each of the workers owns."""
    table = owners(topic, names(notifiers))
    return [{id for id in ids if table[shard_of(id)] == notifier.worker} for notifier in notifiers]


def ids(hints):
    return {due.id for due in hints.due}


# ---- rings and hints ------------------------------------------------------------------------------------------------


def test_only_the_owner_is_rung_and_gets_the_hint(host, other):
    workers = [host.notifier("t"), other.notifier("t"), host.notifier("t")]
    settled(*workers)
    for worker in workers:
        worker.publish(FAR)
    put = [other.put(10) for _ in range(2 * SHARDS)]
    owned = by_owner(put, workers)
    assert all(owned)
    for worker, mine in zip(workers, owned, strict=True):
        assert worker.wait(0) is True
        assert ids(worker.hints()) == mine
        assert worker.wait(0) is False
        assert worker.hints() == ([], False)


def test_one_job_rings_one_of_many(host):
    workers = [host.notifier("t") for _ in range(20)]
    settled(*workers)
    for worker in workers:
        worker.publish(FAR)
    host.put(10)
    assert [worker.wait(0) for worker in workers].count(True) == 1


def test_a_worker_of_another_topic_is_not_rung(host):
    mine, theirs = host.notifier("t"), host.notifier("u")
    settled(mine, theirs)
    mine.publish(FAR)
    theirs.publish(FAR)
    id = host.put(10, "t")
    assert theirs.wait(0) is False
    assert mine.wait(0) is True
    assert ids(mine.hints()) == {id}


def test_nobody_is_rung_and_no_hint_is_written_beyond_the_horizon_or_without_a_worker(host):
    worker = host.notifier("t")
    worker.publish(100)
    host.put(101)
    host.put(1, "nobody")
    assert worker.wait(0) is False
    assert host.rows("hints_end", ()) == [(0,)]
    assert host.furthest() == 100
    assert host.furthest("nobody") == -1


def test_a_horizon_that_moves_during_the_commit_causes_a_reload(host):
    worker = host.notifier("t")
    worker.publish(100)
    with host.begun() as transaction:
        id, number = host.insert(transaction, "t", 200)
        transaction.changed(id, number, 200)
        worker.publish(300)
    assert worker.wait(0) is False
    transaction.tell()
    assert worker.wait(0) is True
    assert worker.hints() == ([], True)
    assert worker.hints() == ([], False)


def test_a_put_alone_looks_again_after_its_commit(host):
    worker = host.notifier("t")
    host.put(1)
    settle(worker)
    worker.publish(100)
    host.presence.missed(1, 0, 101)
    assert worker.wait(0) is False
    host.presence.missed(1, 0, 100)
    assert worker.wait(0) is True
    assert worker.hints().reload


def test_many_jobs_at_once_are_told_to_their_owners(host):
    workers = [host.notifier("t") for _ in range(3)]
    settled(*workers)
    for worker in workers:
        worker.publish(100)
    with host.transaction() as transaction:
        put = [host.insert(transaction, "t", due) for due in range(0, 200, 2)]
        transaction.changed_many([id for id, _ in put], put[0][1], range(0, 200, 2))
    near = [id for (id, _), due in zip(put, range(0, 200, 2), strict=True) if due <= 100]
    for worker, mine in zip(workers, by_owner(near, workers), strict=True):
        assert ids(worker.hints()) == mine


def test_a_worker_that_comes_while_a_put_commits_reads_again(host, other):
    """It may have read its shards before the commit; the putter knew only the owner before it."""
    first = host.notifier("t")
    host.put(1)
    settle(first)
    first.publish(FAR)
    with host.begun() as transaction:
        put = [host.insert(transaction, "t", 10) for _ in range(SHARDS)]
        number = put[0][1]
        transaction.changed_many([id for id, _ in put], number, [10] * SHARDS)
        late = other.presence.notifier("w")
        late.publish(FAR)
        # What its Announce does, but for the row: the lock is taken.
        transaction.run("member_set", (late.worker, '["t"]'))
        late.hints()
    late.wait(0)
    other.presence.stir()
    late.wait(0)
    transaction.tell()
    assert late.wait(0) is True
    assert late.hints().reload


def test_hints_that_were_trimmed_cause_a_reload(host):
    worker = host.notifier("t")
    worker.publish(FAR)
    for _ in range(3):
        with host.transaction() as transaction:
            id, number = host.insert(transaction, "t", 1)
            for _ in range(6_000):
                transaction.changed(id, number, 1)
    assert worker.hints().reload
    assert worker.hints() == ([], False)
    host.put(1)
    assert not worker.hints().reload


def test_a_hint_names_no_job_that_is_finished_or_running(host):
    worker = host.notifier("t")
    worker.publish(FAR)
    done, running, left = [host.put(1) for _ in range(3)]
    host.connection.execute("UPDATE job SET state = 0 WHERE id = ?", (done,))
    columns = [row[1] for row in host.connection.execute("PRAGMA table_info(run)")]
    host.connection.execute(
        f"INSERT INTO run ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        [running if name == "job" else 1 for name in columns],
    )
    [due] = worker.hints().due
    assert due == (1, left, "t")


# ---- who is there ---------------------------------------------------------------------------------------------------


def test_members_are_those_that_announced_topics(host, other):
    a, b = host.notifier("t", "u"), other.notifier("t")
    host.presence.notifier("has not said a thing")
    a.beat(17)
    found = {member.worker: member for member in b.members()}
    assert found.keys() == {a.worker, b.worker}
    assert found[a.worker].topics == {"t", "u"}
    assert found[a.worker].behind == 17
    assert [member.worker for member in b.members()] == sorted(found)


def test_every_start_has_an_id_of_its_own(host):
    first = host.notifier("t")
    first.close()
    again = host.notifier("t")
    assert first.worker != again.worker
    assert again.worker.startswith("w@0.")


def test_members_cost_no_query_unless_one_came_or_went(host, other):
    worker = host.notifier("t")
    host.presence.audience(1)
    worker.members()
    before = host.queries
    for _ in range(10):
        worker.wait(0)
        worker.beat(0)
        worker.members()
    assert host.queries == before
    other.notifier("t")
    assert len(worker.members()) == 2
    assert host.queries == before + 1


def test_a_worker_that_announces_nothing_is_out_at_once_and_the_others_are_woken(host, other):
    a, b = host.notifier("t"), other.notifier("t")
    settle(a)
    other.announce(b.worker)
    assert a.wait(0) is True
    assert [member.worker for member in a.members()] == [a.worker]
    a.publish(FAR)
    b.publish(FAR)
    put = {host.put(1) for _ in range(SHARDS)}
    assert ids(a.hints()) == put


def test_a_clean_close_is_seen_at_once(host, other):
    a, b = host.notifier("t"), other.notifier("t")
    settle(a)
    b.close()
    assert a.wait(0) is True
    assert [member.worker for member in a.members()] == [a.worker]


def test_a_silent_worker_owns_nothing_until_it_speaks_again(host, other, clock):
    """SIGSTOP looks like this: the beats end, the bell and the slot stay."""
    a, b = host.notifier("t"), other.notifier("t")
    settled(a, b)
    a.publish(FAR)
    b.publish(FAR)
    clock.advance(1.1)
    a.beat(0)
    assert a.hints().reload  # it was silent itself: another might have owned its shards
    put = {host.put(1) for _ in range(SHARDS)}
    assert ids(a.hints()) == put
    b.beat(0)
    assert b.wait(0) is True
    assert b.hints().reload
    put = [host.put(1) for _ in range(SHARDS)]
    assert [ids(worker.hints()) for worker in (a, b)] == by_owner(put, [a, b])


def test_an_owner_that_falls_silent_during_the_commit_is_replaced(host, other, clock):
    a, b = host.notifier("t"), other.notifier("t")
    host.put(1)
    a.publish(FAR)
    b.publish(FAR)
    clock.advance(0.9)
    settled(a, b)
    with host.begun() as transaction:
        put = [host.insert(transaction, "t", 1) for _ in range(SHARDS)]
        transaction.changed_many([id for id, _ in put], put[0][1], [1] * SHARDS)
        clock.advance(0.05)
        a.beat(0)
        clock.advance(0.1)
    transaction.tell()
    assert a.wait(0) is True
    assert a.hints().reload


def test_a_worker_alone_is_the_owner_however_rarely_it_beats(host, clock):
    worker = host.notifier("t")
    worker.publish(FAR)
    host.put(1)
    settle(worker)
    for _ in range(3):
        clock.advance(1.5)
        id = host.put(1)
        assert worker.hints() == ([(1, id, "t")], False)
        worker.beat(0)
        assert worker.wait(0) is True  # of the put
        assert worker.wait(0) is False


def test_the_next_announce_forgets_those_that_are_long_gone(host, other, clock):
    gone, here = host.notifier("t"), other.notifier("t")
    clock.advance(61)
    here.beat(0)
    assert gone.worker in host.members()
    other.announce(here.worker, "t", "u")
    assert gone.worker not in host.members()
    assert here.worker in host.members()


def test_a_foreign_worker_does_no_harm(host, clock):
    with host.begun() as transaction:
        transaction.run("member_set", ("somebody", '["t"]'))
    worker = host.notifier("t")
    assert [member.worker for member in worker.members()] == [worker.worker]
    worker.ring("somebody")
    worker.ring("x@y.z")


def test_a_worker_can_be_rung(host, other):
    a, b = host.notifier("t"), other.notifier("t")
    settled(a, b)
    a.ring(b.worker)
    assert b.wait(LIMIT) is True
    assert a.wait(0) is False


def test_a_wake_is_no_ring(host):
    worker = host.notifier("t")
    worker.wake()
    assert worker.wait(LIMIT) is False
    thread = threading.Timer(0.05, worker.wake)
    thread.start()
    assert worker.wait(LIMIT) is False
    thread.join()


# ---- leases ---------------------------------------------------------------------------------------------------------


def test_the_next_lease_is_not_known_until_somebody_expired(host, other):
    assert host.presence.next_lease() == 0
    with host.transaction() as transaction:
        transaction.leased(500)
    assert host.presence.next_lease() == 0
    with host.transaction() as transaction:
        transaction.expired(500)
    assert other.presence.next_lease() == 500


def test_the_next_lease_is_lowered_by_a_lease_and_raised_by_an_expiry(host, other):
    with host.transaction() as transaction:
        transaction.expired(None)
    assert other.presence.next_lease() is None
    with host.transaction() as transaction:
        transaction.leased(900)
        transaction.leased(1_000)
    assert other.presence.next_lease() == 900
    with other.transaction() as transaction:
        transaction.expired(1_000)
        transaction.leased(950)
    assert host.presence.next_lease() == 950


def test_an_expiry_that_was_rolled_back_raises_nothing(host):
    with host.transaction() as transaction:
        transaction.expired(700)
    with pytest.raises(ZeroDivisionError), host.transaction() as transaction:
        transaction.expired(900)
        raise ZeroDivisionError
    assert host.presence.next_lease() == 700


def test_a_lease_given_between_expiry_and_raise_is_not_forgotten(host, other, monkeypatch):
    with host.transaction() as transaction:
        transaction.expired(100)
    with host.begun() as transaction:
        transaction.expired(900)
        raise_lease = transaction._raise_lease

        def lease_first(leases):
            with other.transaction() as second:
                second.leased(200)
            raise_lease(leases)

        monkeypatch.setattr(type(transaction), "_raise_lease", lambda self, leases: lease_first(leases))
    assert host.presence.next_lease() <= 200


# ---- pauses ---------------------------------------------------------------------------------------------------------


def pause(host, topic="t"):
    with host.transaction() as transaction:
        number = transaction.topic(topic)
        transaction.run("pause", {"topic": number, "paused": 1})
        transaction.reload(number)


def test_a_pause_makes_all_read_again_and_rings_those_of_the_topic(host, other):
    mine, theirs = host.notifier("t"), other.notifier("u")
    settled(mine, theirs)
    pause(host)
    assert mine.wait(0) is True
    assert theirs.wait(0) is False
    assert mine.hints().reload
    assert theirs.hints().reload


def test_quiet_waits_for_all_that_handle_the_topic(host, other):
    a, b, c = host.notifier("t"), other.notifier("t"), other.notifier("u")
    settled(a, b, c)
    pause(host)
    assert host.presence.quiet("t", 0.01) is False
    for worker in (a, b):
        assert host.presence.quiet("t", 0) is False
        worker.quiet()  # of before the pause
        assert host.presence.quiet("t", 0) is False
        worker.hints()
        worker.quiet()
    assert host.presence.quiet("t", 0) is True


def test_quiet_returns_when_the_last_one_says_so(host, other):
    worker = other.notifier("t")
    settle(worker)
    pause(host)

    def work():
        while not worker.wait(LIMIT):
            pass
        worker.hints()
        worker.quiet()

    thread = threading.Thread(target=work)
    thread.start()
    assert host.presence.quiet("t", LIMIT) is True
    thread.join()


def test_quiet_does_not_wait_for_who_came_after_the_pause_nor_for_who_is_gone(host, other, clock):
    gone = host.notifier("t")
    pause(host)
    clock.advance(4)
    late = other.notifier("t")
    late.beat(0)
    assert gone.worker in host.members()
    assert host.presence.quiet("t", 0) is True


def test_quiet_is_false_for_a_topic_that_is_not_paused(host):
    host.put(1)
    assert host.presence.quiet("t", 0) is False
    assert host.presence.quiet("unheard of", 0) is False


# ---- files ----------------------------------------------------------------------------------------------------------


def mode_of(path):
    return os.stat(path).st_mode & 0o777


def workers_of(path):
    return f"{path}-workers"


def bell_of(path, slot=0):
    return f"{path}-bell-{slot}"


def soon(host, monkeypatch):
    """Look for the files at every turn, not four times a second."""
    monkeypatch.setattr("pywheel.stores.sqlite.presence._LOOK", 0)
    monkeypatch.setattr("pywheel.stores.sqlite.notifier._LOOK", 0)
    host.presence._look_at = 0


def test_a_deleted_page_is_made_anew_and_all_come_together_again(path, host, other, monkeypatch):
    a, b = host.notifier("t"), other.notifier("t")
    settled(a, b)
    a.publish(FAR)
    b.publish(FAR)
    host.put(1)
    soon(host, monkeypatch)
    os.unlink(workers_of(path))
    a.beat(0)  # makes it anew, and marks the old one
    assert os.path.exists(workers_of(path))
    b.beat(0)  # sees the mark, though it is not yet time to look
    assert host.presence.page._identity == other.presence.page._identity
    for worker in (a, b):
        assert worker.wait(0) is True
        assert worker.hints().reload
        assert {member.worker for member in worker.members()} == {a.worker, b.worker}
    settled(a, b)
    put = [other.put(1) for _ in range(SHARDS)]
    assert [ids(worker.hints()) for worker in (a, b)] == by_owner(put, [a, b])
    assert host.presence.next_lease() == 0


def test_a_putter_that_still_has_the_deleted_page_tells_who_has_left_it(path, host, other, monkeypatch):
    worker = host.notifier("t")
    worker.publish(100)
    other.put(1)
    settle(worker)
    with other.begun() as transaction:
        id, number = other.insert(transaction, "t", 200)
        transaction.changed(id, number, 200)
        soon(host, monkeypatch)
        os.unlink(workers_of(path))
        worker.beat(0)
        settle(worker)
        worker.publish(300)
    transaction.tell()
    assert worker.wait(0) is True
    assert worker.hints().reload


def test_a_page_that_somebody_else_made_is_found(path, host, monkeypatch):
    worker = host.notifier("t")
    os.unlink(workers_of(path))
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
        put = [stranger.put(1) for _ in range(SHARDS)]
        for one, mine in zip((worker, took), by_owner(put, [worker, took]), strict=True):
            assert one.wait(LIMIT) is True
            assert ids(one.hints()) == mine


@pytest.mark.skipif(not bell._DATAGRAMS, reason="no bells here")
def test_a_deleted_bell_is_hung_again(path, host, monkeypatch):
    worker = host.notifier("t")
    settle(worker)
    soon(host, monkeypatch)
    os.unlink(bell_of(path))
    worker.beat(0)
    assert os.path.exists(bell_of(path))
    host.presence.ringer.ring(0)  # the datagram alone
    ready = threading.Event()
    thread = threading.Thread(target=lambda: (worker._bell.wait(LIMIT), ready.set()))
    thread.start()
    assert ready.wait(LIMIT)
    thread.join()


@pytest.mark.skipif(not bell._DATAGRAMS, reason="no bells here")
def test_what_was_rung_while_the_bell_was_gone_is_heard_with_the_next_look(path, host):
    worker = host.notifier("t")
    worker.publish(FAR)
    settle(worker)
    os.unlink(bell_of(path))
    id = host.put(1)
    assert worker.wait(LIMIT) is True
    assert ids(worker.hints()) == {id}


def test_the_files_are_gone_after_a_clean_close_but_for_the_page(path, host):
    host.notifier("t").close()
    left = {name.removeprefix("jobs.db") for name in os.listdir(path.parent)}
    assert left <= {"", "-wal", "-shm", "-workers"}


def test_very_long_paths_have_their_bells(tmp_path):
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    folder.mkdir(parents=True)
    host = Host(folder / "jobs.db")
    worker = host.notifier("t")
    settle(worker)
    assert worker._bell.hangs()
    thread = threading.Timer(0.05, host.presence.ring, ([0],))
    thread.start()
    assert worker.wait(LIMIT) is True
    thread.join()
    host.close()


def test_without_sockets_a_worker_looks_from_time_to_time(path, monkeypatch):
    def refuse(self, path):
        raise OSError("no such address")

    monkeypatch.setattr(bell.Ringer, "short", refuse)
    host = Host(path)
    worker = host.notifier("t")
    worker.publish(FAR)
    settle(worker)
    thread = threading.Timer(0.05, host.put, (1,))
    thread.start()
    until(lambda: worker.wait(LIMIT))
    thread.join()
    assert len(worker.hints().due) == 1
    host.close()


def test_a_ring_that_is_refused_harms_nobody(host, monkeypatch):
    worker = host.notifier("t")
    worker.publish(FAR)

    class Refuses:
        def sendto(self, data, address):
            raise PermissionError

    monkeypatch.setattr(host.presence.ringer, "_socket", Refuses())
    id = host.put(1)
    assert ids(worker.hints()) == {id}


def test_nothing_raises_after_the_commit(host, monkeypatch):
    worker = host.notifier("t")
    worker.publish(FAR)
    host.put(1)
    settle(worker)
    with host.begun() as transaction:
        id, number = host.insert(transaction, "t", 1)
        transaction.changed(id, number, 1)

    def broken(*args):
        raise StoreError("not now")

    monkeypatch.setattr(host.presence, "audience", broken)
    transaction.tell()
    assert worker.wait(0) is True
    assert worker.hints().reload
    host.presence.missed(number, 0, 1)
    assert worker.hints().reload


def test_a_page_of_another_version_is_refused(path, host):
    host.presence.page.words[presence_page._FORMAT] = 7
    with pytest.raises(StoreError, match="another version"):
        Host(path)
    host.presence.page.words[presence_page._FORMAT] = 1


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
        assert mode_of(bell_of(path)) == 0o660
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
print(worker.worker, flush=True)
while not host.presence.closed and not (worker.wait(0.2) and worker.hints().due):
    worker.publish(10**9)
    worker.beat(0)
print("heard", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can be two other users")
def test_two_users_of_a_group_ring_each_other(tmp_path):
    folder = tmp_path
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == 0 and parent != parent.parent and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    os.chown(folder, -1, 4242)
    folder.chmod(0o2775)
    path = folder / "jobs.db"
    path.touch()
    os.chown(path, 5001, 4242)
    path.chmod(0o660)
    with child("-c", SHARED, path, 4242, 5001) as first, child("-c", SHARED, path, 4242, 5002) as second:
        for one in (first, second):
            assert one.stdout.readline().startswith("w@")
        for name in (workers_of(path), bell_of(path, 0), bell_of(path, 1)):
            assert mode_of(name) == 0o660
            assert os.stat(name).st_gid == 4242
        host = Host(path)
        for _ in range(2 * SHARDS):
            host.put(1)
        heard = [one.stdout.readline() for one in (first, second)]
        assert heard == ["heard\n", "heard\n"]
        host.close()


# ---- many, and processes --------------------------------------------------------------------------------------------


def child(*args):
    """Start Python with the same path."""
    return subprocess.Popen(
        [sys.executable, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


WORKER = """
import sys, time
from tests.stores.notifying import *
host = Host(sys.argv[1])
worker = host.notifier("t")
worker.publish(10**9)
print(worker.worker, flush=True)
while True:
    if worker.wait(0.1):
        for due in worker.hints().due:
            print(due.id, flush=True)
    worker.beat(0)
"""


def test_a_stopped_process_is_passed_by_and_reads_again_when_it_goes_on(path):
    host = Host(path)
    with child("-c", WORKER, path) as process:
        worker = process.stdout.readline().strip()
        mine = host.notifier("t")
        mine.publish(FAR)
        stop = threading.Event()
        beating = threading.Thread(target=lambda: [mine.beat(0) or stop.wait(0.1) for _ in iter(stop.is_set, True)])
        beating.start()
        try:
            until(lambda: {member.worker for member in mine.members()} == {worker, mine.worker})
            os.kill(process.pid, signal.SIGSTOP)
            silent = {member.worker: member for member in mine.members()}
            until(lambda: {m.worker: m for m in mine.members()}[worker].silent > 1.1)
            assert silent[worker].silent < LIMIT
            settle(mine)
            put = {host.put(1) for _ in range(SHARDS)}
            assert ids(mine.hints()) == put
            os.kill(process.pid, signal.SIGCONT)
            until(lambda: {m.worker: m for m in mine.members()}[worker].silent < 0.5)
            put = [host.put(1) for _ in range(2 * SHARDS)]
            theirs, _ = [by_owner(put, [type("W", (), {"worker": worker}), mine])[n] for n in (0, 1)]
            assert {int(process.stdout.readline()) for _ in theirs} == theirs
        finally:
            stop.set()
            beating.join()
            process.kill()
    host.close()


def test_a_killed_worker_leaves_its_slot_and_its_row_to_the_next(path):
    host = Host(path)
    with child("-c", WORKER, path) as process:
        killed = process.stdout.readline().strip()
        process.kill()
    assert killed in host.members()
    host.presence.page.words[presence_page._BORN] -= 60_000  # all have come over to it long since
    worker = host.notifier("t")
    assert worker.worker.startswith("w@0.")
    assert killed not in host.members()
    assert [member.worker for member in worker.members()] == [worker.worker]
    host.close()


def test_two_hundred_workers(path):
    host, other = Host(path), Host(path)
    workers = [one.presence.notifier("w") for one in (host, other) for _ in range(100)]
    with host.transaction() as transaction:
        for worker in workers:
            transaction.run("member_set", (worker.worker, '["t"]'))
        transaction.announced()
    for worker in workers:
        worker.publish(FAR)
    settled(*workers)
    assert len(set(names(workers))) == 200
    assert len(workers[0].members()) == 200
    put = [host.put(1) for _ in range(SHARDS)]
    for worker in workers:
        worker.beat(0)
    rung = [worker.wait(0) for worker in workers]
    owned = by_owner(put, workers)
    assert [worker for worker, one in zip(workers, rung, strict=True) if one] == [
        worker for worker, mine in zip(workers, owned, strict=True) if mine
    ]
    for worker, mine in zip(workers, owned, strict=True):
        assert ids(worker.hints()) == mine
    host.close()
    other.close()


def test_more_workers_than_slots_are_told_so(path, host, monkeypatch):
    monkeypatch.setattr(bell, "_DATAGRAMS", False)
    words = host.presence.page.words
    for slot in range(SLOTS):
        words[presence_page.NONCE + slot] = 1
        words[presence_page._PROCESS + slot] = os.getpid()
    words[presence_page.USED] = SLOTS
    with pytest.raises(StoreError, match=f"{SLOTS} workers"):
        host.presence.notifier("w")
    words[presence_page.NONCE + 300] = 0
    assert host.presence.notifier("w").worker.startswith("w@300.")


def start(path, barrier, results):
    host = Host(path)
    barrier.wait(LIMIT)
    workers = [host.notifier("t") for _ in range(10)]
    results.put([worker.worker for worker in workers])
    barrier.wait(LIMIT)
    results.put([member.worker for member in workers[0].members()])
    barrier.wait(LIMIT)
    host.close()


def test_processes_that_start_at_once_get_slots_of_their_own(path):
    Host(path).close()
    os.unlink(workers_of(path))
    spawn = multiprocessing.get_context("spawn")
    barrier, results = spawn.Barrier(4), spawn.Queue()
    children = [spawn.Process(target=start, args=(path, barrier, results)) for _ in range(4)]
    for one in children:
        one.start()
    found = [results.get(timeout=LIMIT) for _ in range(8)]
    for one in children:
        one.join(LIMIT)
        assert one.exitcode == 0
    workers = sorted(name for some in found if len(some) == 10 for name in some)
    assert len({name.partition(".")[0] for name in workers}) == 40
    assert [some for some in found if len(some) != 10] == [workers] * 4


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


def test_closing_while_another_thread_uses_it_touches_no_descriptor_of_others(path):
    for _ in range(20):
        host = Host(path)
        worker = host.notifier("t")
        errors = []

        def work(worker=worker, errors=errors):
            try:
                for _ in range(200):
                    worker.wait(0.0001)
                    worker.beat(0)
                    worker.wake()
                    worker.ring(worker.worker)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        host.presence.close()
        pairs = [socket.socketpair() for _ in range(10)]  # they get the numbers
        for thread in threads:
            thread.join(LIMIT)
        for ends in pairs:
            for end in ends:
                end.setblocking(False)
                with pytest.raises(BlockingIOError):
                    end.recv(1)
        for ends in pairs:
            for end in ends:
                end.close()
        host.close()
        assert errors == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_nothing_of_its_parents(path, host):
    worker = host.notifier("t")
    settle(worker)
    process = os.fork()
    if process == 0:
        try:
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
