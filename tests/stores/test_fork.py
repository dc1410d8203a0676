"""A store that was opened before a fork works on both sides, as if each had opened it itself."""

import os
from contextlib import suppress
from weakref import WeakSet

import pytest

from pywheel.stores.memory import MemoryStore
from pywheel.stores.sqlite import SqliteStore, forks
from tests.interrupts import at_each_place, interrupt, traced
from tests.isolated.child import run_well
from tests.stores.calls import ended, put

pytestmark = [pytest.mark.stress, pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")]

START = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")  # Python warns of forks beside threads: that is what is tried here
from pywheel import JobQueue, StoreError

def in_child(work):
    "Fork, run it there, and return the exit code."
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

queue = JobQueue(sys.argv[1])
"""

HEARD = """
from tests.stores.calls import listening, settle

def heard(notifier):
    "Return the jobs that it is told; it is woken as well when somebody comes or goes."
    due = []
    while not due:
        assert notifier.wait(60)
        hints = notifier.hints()
        assert not hints.reload
        due = [due.id for due in hints.due]
    return due
"""

PROGRAMS = {
    # As under gunicorn --preload.
    "forks_while_other_threads_put_and_read": """
told, over = [], threading.Event()

def work():
    while not over.is_set():
        told.append(queue.put("t", b"x"))
        queue.get(told[-1])
        queue.topics.counts()

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
while len(told) < 10:
    time.sleep(0.001)

def child():
    assert queue.get(told[0]).body == b"x"
    assert sum(queue.topics.counts()["t"]) >= 10
    for _ in range(3):
        queue.put("t", b"child")

codes = [in_child(child) for _ in range(25)]
over.set()
for thread in threads:
    thread.join()
assert codes == [0] * 25
assert sum(queue.topics.counts()["t"]) == len(told) + 75
""",
    "threads_fork_at_once": """
def child():
    queue.put("t")

codes = []
threads = [threading.Thread(target=lambda: codes.extend(in_child(child) for _ in range(10))) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
queue.put("t")
assert codes == [0] * 30
assert sum(queue.topics.counts()["t"]) == 31
""",
    "forks_while_another_thread_opens_queues": """
def child():
    queue.put("t")

def opens():
    while True:
        for url in (sys.argv[1], "memory:"):
            with JobQueue(url):
                pass

threading.Thread(target=opens, daemon=True).start()
for number in range(1, 21):
    assert in_child(child) == 0
    queue.put("t")
assert sum(queue.topics.counts()["t"]) == 40
""",
    "a_child_may_listen_and_the_parents_notifier_stays": HEARD
    + """
ears = listening(queue.store, "parents")

def child():
    mine = listening(queue.store, "childs")
    assert {member.worker for member in mine.members()} == {mine.worker, ears.worker}
    id = queue.put("childs", b"x")
    assert heard(mine) == [id]
    queue.put("parents", b"x")
    mine.close()
    queue.close()

assert in_child(child) == 0
[found] = heard(ears)
assert queue.get(found).topic == "parents"
settle(ears)
id = queue.put("parents", b"x")
assert heard(ears) == [id]
ears.close()
""",
    "a_notifier_of_the_parent_does_nothing_in_the_child": HEARD
    + """
from pywheel import StoreClosed

ears = listening(queue.store, "t")

def child():
    ears.publish(-1)
    ears.beat(7)
    ears.wake()
    ears.ring(ears.worker)
    ears.quiet()
    assert ears.wait(60) is False
    for query in (ears.members, ears.hints):
        try:
            query()
        except StoreClosed:
            continue
        raise AssertionError
    queue.put("t", b"child")
    ears.close()
    queue.store.notifier("w").close()

assert in_child(child) == 0
assert ears.members()[0].behind == 0
[found] = heard(ears)
assert queue.get(found).body == b"child"
""",
    "forks_beside_a_thread_that_waits_and_beats": HEARD
    + """
ears, over, found = listening(queue.store, "t"), threading.Event(), set()

def work():
    while not over.is_set():
        ears.beat(0)
        ears.wait(0.02)
        hints = ears.hints()
        found.update(due.id for due in hints.due)
        if hints.reload:
            found.update(job.id for job in queue.jobs.list(limit=1000))

thread = threading.Thread(target=work)
thread.start()

def child():
    mine = listening(queue.store, "other")
    queue.put("t", b"child")
    mine.close()

codes = [in_child(child) for _ in range(25)]
told = [queue.put("t", b"parent") for _ in range(5)]
while len(found) < 30:
    time.sleep(0.001)
over.set()
thread.join()
assert codes == [0] * 25
assert found == {job.id for job in queue.jobs.list(limit=1000)}
assert len(found) == 30
""",
    # At the end of its interpreter nothing of the parent's is closed: the parent's jobs and turn stay.
    "a_child_that_only_exits_leaves_all_as_it_was": """
queue.put("t", b"x")
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert queue.get(queue.put("t", b"x")).topic == "t"
""",
    "a_signal_handler_may_fork_in_the_middle_of_a_put": """
import signal

codes = []

def child():
    assert queue.put("t", b"child") > 0
    queue.close()

signal.signal(signal.SIGUSR1, lambda *_: codes.append(in_child(child_later)))

def child_later():
    os.execv(sys.executable, [sys.executable, "-c", "pass"])

# Redis is asked no time.
place, name = (queue.store.server, "take") if hasattr(queue.store, "server") else (queue.store.clock, "wall")
call, left = getattr(place, name), [1]
commits = [lane.commits for lane in queue.store.lanes] if hasattr(queue.store, "lanes") else [queue.store._group_commit]

def interrupted():
    if left and any(one._token._is_owned() for one in commits):
        left.pop()
        signal.raise_signal(signal.SIGUSR1)
    return call()

queue.put("t", b"x")
setattr(place, name, interrupted)
assert queue.get(queue.put("t", b"x")).body == b"x"
setattr(place, name, call)
assert queue.get(queue.put("t", b"x")).body == b"x"
assert codes == [0]
assert in_child(child) == 0
""",
}


ON_A_FILE = {
    # SQLite's locks stay with the parent: a child that trusted them would lose the log when the parent closes.
    "what_a_child_writes_stays_when_the_parent_closes_first": """
queue.put("t", b"parent")
gone, go_on = os.pipe()

def child():
    os.close(go_on)
    queue.put("t", b"child")
    os.read(gone, 1)  # until the parent has closed its end
    for _ in range(20):
        queue.put("t", b"child")
    queue.close()

child_id = os.fork()
if child_id == 0:
    try:
        child()
    finally:
        os._exit(0)
os.close(gone)
while sum(queue.topics.counts()["t"]) < 2:
    time.sleep(0.001)
queue.close()
os.close(go_on)
os.waitpid(child_id, 0)
with JobQueue(sys.argv[1]) as again:
    assert sum(again.topics.counts()["t"]) == 22, again.topics.counts()
""",
    # Beside a thread within SQLite the child would copy a mutex that is locked, and wait for it for ever.
    "a_read_that_lasts_ends_for_a_fork_and_begins_anew": """
begun, over = [], threading.Event()

def lasts(number):
    time.sleep(0.001)
    return not over.is_set()

def read(connection):
    begun.append(connection)
    connection.create_function("lasts", 1, lasts)
    rows = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE lasts(n))"
    return connection.execute(f"{rows} SELECT count(*) > 0 FROM t").fetchall()

found = []
reader = threading.Thread(target=lambda: found.extend(queue.store._reading(read)))
reader.start()
while not begun:
    time.sleep(0.001)
assert in_child(lambda: queue.put("t", b"child")) == 0
while len(begun) < 2:
    time.sleep(0.001)
over.set()
reader.join()
assert (found, begun[0] is begun[1]) == ([(1,)], False)
""",
    "forks_beside_a_backup": """
queue.put_many(queue.job("t", n) for n in range(1_000))
copies = []

def work():
    for number in range(10):
        copies.append(f"{sys.argv[1].removeprefix('sqlite:///')}-copy{number}")
        queue.store.backup(copies[-1])

thread = threading.Thread(target=work)
thread.start()
while thread.is_alive():
    assert in_child(lambda: queue.put("t")) == 0
thread.join()
for path in copies:
    with JobQueue(f"sqlite:///{path}") as copy:
        assert sum(copy.topics.counts()["t"]) >= 1_000
        assert copy.store.check() == []
""",
}


IN_MEMORY = """
over = threading.Event()

def work():
    while not over.is_set():
        queue.put_many(queue.job("t", n) for n in range(20))
        queue.topics.counts()

def child():
    before = sum(queue.topics.counts().get("t", ()))
    queue.put("t")
    assert before % 20 == 0
    assert sum(queue.topics.counts()["t"]) == before + 1

threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
codes = [in_child(child) for _ in range(100)]
over.set()
for thread in threads:
    thread.join()
assert codes == [0] * 100
"""


def runs_well(program, url):
    return run_well("-c", f'{START}{program}print("well")', url) == "well\n"


@pytest.mark.drawn(10)
@pytest.mark.parametrize("name", PROGRAMS)
def test_with_a_store_that_was_opened_before(shared_url, name):
    assert runs_well(PROGRAMS[name], shared_url)


@pytest.mark.parametrize("name", ON_A_FILE)
def test_with_a_file_that_was_opened_before(tmp_path, name):
    assert runs_well(ON_A_FILE[name], f"sqlite:///{tmp_path}/jobs.db")


def test_a_child_imports_nothing_to_leave_alone_what_is_its_parents():
    """It would wait for ever for a thread of the parent that was importing the same."""
    program = """
import sys
from pywheel.stores.relational import connections

loaded = set(sys.modules)
connections.leave_alone(object())
print(set(sys.modules) - loaded)
"""
    assert run_well("-c", program) == "set()\n"


def test_a_child_has_a_whole_copy_of_its_own_of_a_store_in_memory_whatever_threads_were_doing():
    assert runs_well(IN_MEMORY, "memory:")


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_signal_handler_that_raises_anywhere_in_what_follows_a_fork_leaves_a_store_that_works(
    tmp_path, pool, kind, monkeypatch
):
    """As the hooks of a fork do it, without one: what follows is called twice."""
    monkeypatch.setattr(forks, "_stores", WeakSet())  # those of other tests would be paused as well, at as many places
    with MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "jobs.db") as store:
        for intrusion in at_each_place(("sqlite/forks.py", "/store.py", "database.py", "group_commit.py"), interrupt):
            forks._before()
            with suppress(KeyboardInterrupt), traced(intrusion):
                forks._after_in_parent()
            forks._after_in_parent(last=True)
            put(store)
            ended(pool.submit(put, store))
        assert store.verify() == []
