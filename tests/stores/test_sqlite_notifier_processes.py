"""Wake-ups and presence across processes: stopped, killed, many."""

import multiprocessing

import pytest

from pywheel import StoreError
from pywheel.stores.sqlite import page
from pywheel.stores.sqlite.page import GONE, HEARTBEAT, SLOTS
from tests.jobs.waiting import LIMIT
from tests.stores.notifying import FAR, Host, by_owner, ids, names, settled, workers_of

# ---- many, and processes --------------------------------------------------------------------------------------------


def test_a_killed_worker_leaves_its_slot_and_its_row_to_the_next(host, other):
    killed = other.notifier("t").worker
    words = host.presence.page.words
    words[page._BORN] -= 60_000  # all have come over to it long since
    words[HEARTBEAT] -= GONE + 1
    worker = host.notifier("t")
    assert worker.worker.startswith("w@0.")
    assert killed not in host.members()
    assert [member.worker for member in worker.members()] == [worker.worker]


def test_two_hundred_workers(path, clock):
    host, other = Host(path, clock), Host(path, clock)  # nobody falls silent, however busy this host is
    workers = [one.presence.notifier("w") for one in (host, other) for _ in range(100)]
    with host.transaction() as turn:
        for worker in workers:
            turn.execute("INSERT INTO member (worker, topics) VALUES (?, ?)", (worker.worker, '["t"]'))
        turn.changes.announced[workers[0].worker] = ("t",)
    for worker in workers:
        worker.publish(FAR)
    settled(*workers)
    assert len(set(names(workers))) == 200
    assert len(workers[0].members()) == 200
    put = host.put_all_over()
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


def test_more_workers_than_slots_are_told_so(host):
    words = host.presence.page.words
    for slot in range(SLOTS):
        words[page.NONCE + slot] = 1
        words[HEARTBEAT + slot] = host.presence.now()
    words[page.USED] = SLOTS
    with pytest.raises(StoreError, match=f"{SLOTS} workers"):
        host.presence.notifier("w")
    words[page.NONCE + 300] = 0
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


@pytest.mark.stress
def test_processes_that_start_at_once_get_slots_of_their_own(path):
    Host(path).close()
    workers_of(path).unlink()
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
