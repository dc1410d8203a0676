"""A supervisor and its workers as real processes: killed, stopped, told to go, replaced one by one."""

import contextlib
import gc
import json
import logging
import os
import pty
import signal
import sys
import threading
import time
from itertools import count, pairwise
from pathlib import Path

import pytest

from pywheel import JobQueue, StoreError, Supervisor
from pywheel.jobs import Counts, State
from pywheel.processes import supervisor as module
from tests.jobs.waiting import LIMIT, alive, finished, until

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="processes of POSIX")]
HERE = Path(__file__).parent


# ---- one life -------------------------------------------------------------------------------------------------------


def test_a_term_signal_to_all_processes_at_once_ends_no_grace(shop):
    """As a service manager sends it: the workers get it twice."""
    supervisor = shop.start(2)
    workers = shop.up()
    id = shop.queue.put("steady")
    until(lambda: shop.started(id))
    supervisor.send_signal(signal.SIGTERM)
    for _ in range(3):
        for pid in filter(alive, workers):
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGTERM)
        time.sleep(0.3)
    assert supervisor.poll() is None
    shop.go()
    assert supervisor.wait(60) == 0
    assert (finished(shop.queue, id).state, shop.queue.get(id).attempt) == (State.DONE, 1)


# ---- deaths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "level", "why"),
    [(signal.SIGKILL, "ERROR", "killed by SIGKILL"), (signal.SIGTERM, "INFO", "it was told to stop")],
)
def test_a_worker_that_ends_is_replaced_and_that_is_no_error_if_it_was_told_to(shop, number, level, why):
    shop.start(2)
    first = shop.up()
    id = shop.queue.put("t", b"slow", ttr="400ms")
    os.kill(first[0], number)
    until(lambda: set(shop.up()) - set(first))
    assert finished(shop.queue, id).state is State.DONE
    assert shop.said(f"{level} worker {first[0]} ended after")
    assert shop.said(why)
    assert shop.said("ERROR") is (level == "ERROR")


@pytest.mark.parametrize("how", ["stop", "greedy"])
def test_a_worker_that_stands_still_is_killed_and_replaced(shop, how):
    shop.start(2, stall="2s")
    first = shop.up()
    id = shop.queue.put("freeze", how.encode())
    until(lambda: shop.started(id))
    victim = int(shop.started(id)[0][1])
    until(lambda: not alive(victim) and victim not in shop.up())
    up = set(shop.up())
    killed = {pid for pid in first if shop.said(f"worker {pid} stood still for 2.0 s: killed")}
    assert victim in killed  # on a busy host the other one may get no turn for as long
    assert set(first) - killed <= up
    assert finished(shop.queue, id).state is State.DONE


def test_workers_whose_store_was_replaced_are_replaced_and_work_on_the_new_one(shop):
    shop.queue.close()
    shop.start(1)
    first = shop.up(1)
    new = shop.folder / "new.db"
    with JobQueue(f"sqlite:///{new}") as queue:
        id = queue.put("t", b"x")
    new.rename(shop.folder / "jobs.db")
    for end in ("wal", "shm"):
        (shop.folder / f"jobs.db-{end}").unlink()
    until(lambda: not set(shop.up(1)) & set(first))
    with JobQueue(f"sqlite:///{shop.folder}/jobs.db") as queue:
        assert finished(queue, id).state is State.DONE
    assert shop.said("was replaced by another file")
    assert not shop.said("Traceback")


def test_a_supervisor_that_was_stopped_for_long_kills_nobody(shop):
    supervisor = shop.start(2, stall="5s")
    workers = shop.up()
    for pid in (supervisor.pid, *workers):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(8)
    os.kill(supervisor.pid, signal.SIGCONT)
    time.sleep(0.3)
    for pid in workers:
        os.kill(pid, signal.SIGCONT)
    time.sleep(2)
    assert shop.up() == workers


def test_workers_whose_supervisor_is_killed_drain_have_their_whole_grace_and_end(shop):
    supervisor = shop.start(2, grace="60s")
    workers = shop.up()
    running = [shop.queue.put("steady"), shop.queue.put("alone")]
    until(lambda: all(map(shop.started, running)))
    supervisor.kill()
    supervisor.wait()
    until(lambda: {int(pid) for [pid] in shop.lines("drains")} == set(workers))
    later = shop.queue.put("t", b"x")
    time.sleep(12)  # longer than a worker that hangs has beyond its grace
    assert any(map(alive, workers)), "a handler is under way"
    shop.go()
    assert {finished(shop.queue, id).state for id in running} == {State.DONE}
    assert [len(shop.started(id)) for id in running] == [1, 1]
    until(lambda: not any(map(alive, shop.everybody())))
    assert shop.queue.get(later).attempt == 0


def test_a_crash_loop_is_said_and_slows_down(shop):
    shop.start(1)
    shop.up(1)
    shop.queue.put("t", b"kill", ttr="400ms")
    until(lambda: shop.said("a crash loop, 5 in a row"))
    assert shop.said("the next one starts in 0.1 s\n")
    assert shop.said("the next one starts in 1.6 s: a crash loop")
    until(lambda: len(shop.lines("began")) > 5)
    began = [float(at) for [at] in shop.lines("began")]
    assert max(later - earlier for earlier, later in pairwise(began)) > 1.6


# ---- replacing all ---------------------------------------------------------------------------------------------------


def test_a_hang_up_signal_replaces_all_while_somebody_is_always_up(shop):
    supervisor = shop.start(2)
    first = shop.up()
    shop.version("2")
    supervisor.send_signal(signal.SIGHUP)
    fewest = 2
    while set(first) & set(shop.status("all")):
        fewest = min(fewest, len(shop.status("up")))
        id = shop.queue.put("t", b"x")
        assert finished(shop.queue, id).attempt == 1
    assert fewest == 2
    assert not set(first) & set(shop.up())
    id = shop.queue.put("t", b"x")
    finished(shop.queue, id)
    assert shop.started(id)[0][2] == "2"
    assert shop.said("all workers are replaced")


def test_hang_up_signals_during_a_rolling_restart_end_with_all_replaced_and_the_number_wanted(shop):
    supervisor = shop.start(2)
    first = shop.up()
    for number in count():
        shop.version(str(number))
        supervisor.send_signal(signal.SIGHUP)
        time.sleep(0.15)
        assert len(shop.status("up")) >= 2
        if number > 4 and shop.said("beginning again with the replacement"):
            break

    def is_by_the_last():
        id = shop.queue.put("t", b"x")
        finished(shop.queue, id)
        return shop.started(id)[0][2] == str(number)

    until(lambda: all(is_by_the_last() for _ in range(10)))
    assert not set(first) & set(shop.up())
    assert shop.said("all workers are replaced")


def test_a_new_version_that_kills_its_process_leaves_the_old_workers_at_work_until_it_is_mended(shop):
    supervisor = shop.start(2)
    first = shop.up()
    shop.version("crashing")
    supervisor.send_signal(signal.SIGHUP)
    until(lambda: shop.said("the new version does not start; 2 workers of the old one go on"))
    assert not shop.said("the next one starts")
    assert shop.up() == first
    id = shop.queue.put("t", b"x")
    assert finished(shop.queue, id).state is State.DONE
    shop.version("3")
    supervisor.send_signal(signal.SIGHUP)
    until(lambda: shop.said("all workers are replaced"))
    assert not set(first) & set(shop.up())


# ---- terminals ------------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(shop):
    """Start a supervisor on a terminal of its own; return its end of it, and the process."""
    pid, ours = pty.fork()
    if pid == 0:
        os.chdir(HERE)
        options = [sys.executable, str(HERE / "supervise.py"), "supervised_shop:queue", "2", '{"grace": "10m"}']
        os.execve(sys.executable, options, shop.environment())
    yield ours, pid
    if alive(pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_ctrl_c_on_a_terminal_reaches_the_workers_once(shop, terminal):
    ours, pid = terminal
    shop.up()
    id = shop.queue.put("steady")
    until(lambda: shop.started(id))
    os.write(ours, b"\x03")
    until(lambda: len(shop.status("all")) == 1)
    time.sleep(1)
    assert alive(pid)
    shop.go()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (finished(shop.queue, id).state, shop.queue.get(id).attempt) == (State.DONE, 1)
    os.close(ours)


def test_a_terminal_that_is_closed_is_a_stop(shop, terminal):
    ours, pid = terminal
    shop.up()
    os.close(ours)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    until(lambda: not any(map(alive, shop.everybody())))


# ---- what is left over ----------------------------------------------------------------------------------------------


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def of_workers(processes, told, end="0", **options):
    """Return a supervisor of workers that tell it something, and end."""
    supervisor = Supervisor("shop:queue", processes, **options)
    script = f"import os, signal, sys, time; os.write(int(sys.argv[1]), {told!r}); {end}"
    supervisor._command = [sys.executable, "-S", "-E", "-c", script]
    return supervisor


def dying(monkeypatch, processes, done):
    """Return a supervisor, which loses no time, of workers that die, and have done something before or not."""
    monkeypatch.setattr(module, "_BACKOFF", (0.0, 0.0))
    return of_workers(processes, json.dumps({"ready": True, "worked": done}).encode() + b"\n")


@pytest.mark.parametrize(("done", "loops"), [(False, True), (True, False)])
def test_deaths_of_workers_that_handled_jobs_are_no_crash_loop(monkeypatch, caplog, done, loops):
    """A job that kills its process must not have all others wait for long."""
    supervisor = dying(monkeypatch, 2, done)

    def look():
        if sum("ended after" in record.getMessage() for record in caplog.records) >= 12:
            supervisor.stop()

    supervisor.run(look)
    assert any("a crash loop" in record.getMessage() for record in caplog.records) is loops


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="no real-time signals here")
def test_a_worker_killed_by_a_signal_without_a_name_is_replaced_and_said_by_its_number(monkeypatch, caplog):
    supervisor = dying(monkeypatch, 1, True)
    number = signal.SIGRTMIN + 6
    supervisor._command[-1] += f"; os.kill(os.getpid(), {number:d})"

    def look():
        if sum(f"killed by signal {number:d};" in record.getMessage() for record in caplog.records) >= 2:
            supervisor.stop()

    supervisor.run(look)


def test_a_second_stop_ends_the_grace_of_a_worker_that_hangs(caplog):
    deaf = f"[signal.signal(number, signal.SIG_IGN) for number in ({signal.SIGTERM:d}, {module.STOP_NOW:d})]"
    up = json.dumps({"ready": True, "worked": True}).encode() + b"\n"
    hangs = f"{deaf}; os.write(int(sys.argv[1]), {up!r}); time.sleep(3600)"
    supervisor = of_workers(1, b"", hangs, stall="300ms", grace="1h")

    def look():
        if supervisor.about and supervisor._stops < 2:
            supervisor.stop()

    supervisor.run(look)
    assert "stood still for 0.3 s: killed" in caplog.text


def test_a_worker_that_was_up_for_less_than_a_turn_was_up(monkeypatch, caplog):
    supervisor = dying(monkeypatch, 1, True)
    read = module._WorkerProcess.read

    def read_once_it_has_ended(worker):
        if worker._process.returncode is not None:
            read(worker)

    def look():
        if sum("ended after" in record.getMessage() for record in caplog.records) >= 2:
            supervisor.stop()

    monkeypatch.setattr(module._WorkerProcess, "read", read_once_it_has_ended)
    supervisor.run(look)
    assert supervisor.about == {"store": None, "topics": None}


def children():
    """The children of this process, zombies too."""
    stats = [process / "stat" for process in Path("/proc").iterdir() if process.name.isdecimal()]
    found = set()
    for stat in stats:
        with contextlib.suppress(OSError):
            name, _, rest = stat.read_text().rpartition(") ")
            if int(rest.split()[1]) == os.getpid():
                found.add(name)
    return found


def test_many_restarts_leave_no_zombie_and_no_descriptor(monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL)
    gc.collect()  # what other tests left open
    before, others = descriptors(), children()
    supervisor = dying(monkeypatch, 3, True)
    most, pids = [], set()

    def look():
        most.append(descriptors())
        pids.update(worker.pid for worker in supervisor.workers)
        if len(pids) >= 60:
            supervisor.stop()

    supervisor.run(look)
    assert descriptors() <= before
    assert max(most) <= before + 10
    assert children() <= others  # one of those may have been reaped meanwhile


def test_a_pipe_full_of_rubbish_is_no_end():
    looks = count()
    supervisor = of_workers(1, b"rubbish\n" * 9 + b"[]\n7\n\xff\n{}\n", "time.sleep(60)")
    supervisor.run(lambda: next(looks) > 8 and supervisor.stop())
    assert supervisor.about == {}


@pytest.mark.parametrize("rubbish", ['["failed"]', '"failed"', '{"failed": 1}', "[" * 9_000])
def test_a_worker_that_dies_after_rubbish_is_replaced(monkeypatch, caplog, rubbish):
    supervisor = dying(monkeypatch, 1, True)
    supervisor._command[-1] += f"; os.write(int(sys.argv[1]), {rubbish.encode() + bytes([10])!r})"

    def look():
        if sum("exit code 0" in record.getMessage() for record in caplog.records) >= 2:
            supervisor.stop()

    supervisor.run(look)


def test_a_program_of_thousands_of_topics_is_up(tmp_path, monkeypatch):
    lines = (
        "from pywheel import JobQueue",
        f"queue = JobQueue('sqlite:///{tmp_path}/jobs.db')",
        "for number in range(3000): queue.handler(f'invoices.of.customer.{number:04}')(print)",
    )
    (tmp_path / "many_topics.py").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    supervisor = Supervisor("many_topics:queue", 1, stall=LIMIT)  # a busy machine takes long to import it
    supervisor.run(lambda: supervisor.stop() if supervisor.about else None)
    assert supervisor.about["topics"][:2] == ["invoices.of.customer.0000", "invoices.of.customer.0001"]
    assert supervisor.about["topics"][-1] == "…"


@pytest.fixture
def supervise(shop, monkeypatch):
    """Give a function that makes a supervisor of one worker in this process."""
    monkeypatch.chdir(HERE)
    for name, value in shop.environment().items():
        monkeypatch.setenv(name, value)
    return lambda **options: Supervisor("supervised_shop:queue", 1, **options)


def test_a_supervisor_may_run_in_a_thread_and_be_stopped_from_another(shop, supervise):
    supervisor = supervise(store=f"sqlite:///{shop.folder}/other.db", topics={"t"})
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        until(lambda: supervisor.about)
        with JobQueue(supervisor.about["store"]) as other:
            assert supervisor.about == {"store": f"sqlite:///{shop.folder}/other.db", "topics": ["t"]}
            id = other.put("t", b"x")
            assert finished(other, id).state is State.DONE
            assert other.topics.counts()["t"] == Counts(done=1)
    finally:
        supervisor.stop()
        thread.join()


def test_a_broken_store_is_a_store_error(shop, monkeypatch):
    (shop.folder / "other.db").write_bytes(b"no store" * 1000)
    monkeypatch.setenv("SHOP_FOLDER", str(shop.folder))
    with pytest.raises(StoreError):
        Supervisor("tests.worker.supervised_shop:queue", 1, store=f"sqlite:///{shop.folder}/other.db").run()


# ---- those that cannot begin -----------------------------------------------------------------------------------------


def test_a_program_that_kills_each_process_that_imports_it_ends_it(shop):
    shop.version("crashing")
    assert shop.start(3).wait(60) == 2
    assert shop.said("WorkersFailed: no worker could begin: killed by SIGKILL")
    assert len(shop.lines("import")) <= 6


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_the_store_stands_in_no_command_line_as_it_may_have_a_password(shop, supervise):
    supervisor = supervise(store=f"sqlite:///{shop.folder}/s3cret.db")
    told = []

    def look():
        for worker in supervisor.workers:
            if worker.ready and not told:  # once stopped it ends at any moment
                told.append(Path(f"/proc/{worker.pid}/cmdline").read_bytes())
                supervisor.stop()

    supervisor.run(look)
    assert b"supervised_shop" in told[0]
    assert b"s3cret" not in told[0]
