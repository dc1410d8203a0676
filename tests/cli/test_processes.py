"""The command in a process of its own: completion, a missing extra, a worker."""

import os
import re
import signal
import subprocess
import sys

import pytest

from pywheel import JobQueue
from pywheel.jobs import State
from tests.isolated.child import environment, run
from tests.jobs.waiting import until

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals and shells of POSIX")]
MODULE = """
from pywheel import JobQueue
queue = JobQueue({url!r})
@queue.handler("t")
def handle(job):
    print("handled", job.id, flush=True)
"""


def test_completion_can_be_had():
    result = run("-m", "pywheel.cli", "--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (result.returncode, "complete" in result.stdout) == (0, True)


def test_without_the_extra_it_says_how_to_get_it():
    result = run("-c", "import sys; sys.modules['typer'] = None; from pywheel.cli import main; main()")
    said = "pywheel: the command line needs typer: pip install 'pywheel-timer[cli]'\n"
    assert (result.returncode, result.stderr) == (2, said)


def test_ctrl_c_while_it_is_imported_is_quiet():
    code = """
import sys

class Interrupts:
    def find_spec(self, name, *rest):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
from pywheel.cli import main
main()
"""
    result = run("-c", code)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


@pytest.mark.parametrize("gone", [False, True])
def test_work_runs_the_handlers_of_a_module_until_it_is_told_to_stop_or_its_store_is_gone(
    queue, url, work, tmp_path, gone
):
    with work(MODULE.format(url=url)) as command:
        id = queue.put("t")
        until(lambda: queue.get(id).state is State.DONE)
        if gone:
            (tmp_path / "jobs.db").unlink()
            said = command.ends(3).splitlines()[-1]
            assert f"pywheel: {tmp_path}/jobs.db was deleted while it was open" in said
        else:
            command.send(signal.SIGTERM)
            command.ends()
        assert f"handled {id}" in command.out


def test_work_says_which_store_it_works_on_and_another_one_can_be_given(tmp_path, work):
    other = f"sqlite:///{tmp_path}/other.db"
    source = MODULE.format(url="sqlite:///jobs.db")
    with JobQueue(other) as queue:
        id = queue.put("t")
        with work(source, "--store", "sqlite:///other.db") as command:
            until(lambda: queue.get(id).state is State.DONE)
            command.says(f"working on {other}, topics t")
    with work(source, PYWHEEL_STORE=other) as command:
        command.says("PYWHEEL_STORE names another store")
        assert f"working on sqlite:///{tmp_path}/jobs.db, topics t" in command.err.splitlines()[0]


SLOW = """
import time
from pathlib import Path
from pywheel import JobQueue
queue = JobQueue({url!r})
@queue.handler("t")
def handle(job):
    Path(f"began{{job.id}}").touch()
    while not Path("go").exists():
        time.sleep(0.01)
"""


@pytest.fixture
def hang_ups():
    """Set what becomes of hang-ups where a command begins; the tests themselves may run under nohup."""
    before = signal.getsignal(signal.SIGHUP)
    yield lambda handler: signal.signal(signal.SIGHUP, handler)
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        (signal.SIGINT, None, State.DONE),
        (signal.SIGINT, signal.SIGINT, State.DELAYED),
        (signal.SIGHUP, signal.SIGHUP, State.DONE),  # a terminal that is closed may send it, and so may its shell
    ],
)
def test_a_drain_says_what_it_waits_for_and_a_second_ctrl_c_ends_it_but_no_hang_up_does(
    queue, url, work, tmp_path, hang_ups, first, second, state
):
    hang_ups(signal.SIG_DFL)
    with work(SLOW.format(url=url), "--grace", "50") as command:
        ids = queue.put_many([queue.job("t", ttr="5m") for _ in range(2)])
        until(lambda: all((tmp_path / f"began{id}").exists() for id in ids))
        command.send(first)
        command.says("2 handlers under way, 50 s for them; Ctrl-C once more ends it")
        if second:
            command.send(second)
        if state is State.DONE:
            (tmp_path / "go").touch()
        assert command.process.wait(60) == 0 or first != signal.SIGHUP
        assert queue.get(ids[0]).state is state
        assert "Traceback" not in command.err


def test_a_hang_up_that_is_ignored_stays_so(queue, url, work, hang_ups):
    """As with nohup."""
    hang_ups(signal.SIG_IGN)
    with work(MODULE.format(url=url)) as command:
        for delay in (0, "300ms"):
            id = queue.put("t", delay=delay)
            until(lambda id=id: queue.get(id).state is State.DONE)
            command.send(signal.SIGHUP)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_work_runs_so_many_jobs_at_once_in_each_process(queue, url, work, tmp_path, processes):
    """They go on until they may end, and each process says how many it has at once."""
    source = f"""
import os, pathlib, time
from pywheel import JobQueue
queue, running = JobQueue({url!r}), set()
def handle(job):
    running.add(job.id)
    pathlib.Path(f"most-{{os.getpid()}}-{{len(running)}}").touch()
    while not pathlib.Path("end").exists():
        time.sleep(0.01)
    running.discard(job.id)
queue.handler("a")(handle)
queue.handler("b")(handle)
"""
    with work(source, "--concurrency", "3", "--processes", processes) as command:
        queue.put_many(queue.job(topic) for _ in range(10) for topic in "ab")
        until(lambda: len(list(tmp_path.glob("most-*-3"))) == int(processes))
        (tmp_path / "end").touch()
        until(lambda: sum(count.done for count in queue.topics.counts().values()) == 20)
        assert not list(tmp_path.glob("most-*-4"))
        command.send(signal.SIGTERM)
        command.ends()


def test_several_processes_work_and_end_together(work, tmp_path):
    url = f"sqlite:///{tmp_path}/other.db"
    source = MODULE.format(url="sqlite:///jobs.db")
    source = source.replace('print("handled", job.id, flush=True)', 'os.write(1, f"handled {job.id}\\n".encode())')
    arguments = ("--processes", "2", "--store", "sqlite:///other.db", "--topics", "t")
    with JobQueue(url) as queue, work(f"import os\n{source}", *arguments) as command:
        command.says(f"2 processes working on {url}, topics t")
        ids = queue.put_many(queue.job("t") for _ in range(200))
        until(lambda: queue.topics.counts()["t"].done == 200)
        command.send(signal.SIGHUP)
        command.says("all workers are replaced")
        command.send(signal.SIGINT)
        assert "Ctrl-C once more ends it" in command.ends()
    handled = re.findall(r"^handled (\d+)$", command.out, re.MULTILINE)
    assert sorted(map(int, handled)) == sorted(ids)


@pytest.mark.parametrize(
    ("source", "arguments", "code", "error"),
    [
        (MODULE, "--processes 2 --topics tt", 2, "no handler for 'tt', did you mean t?"),
        (MODULE, "--processes 2 --store sqlite:////no/such/x.db", 3, "/no/such/x.db cannot be"),
        ("raise KeyError(7)", "--processes 2", 2, "no worker could begin: KeyError: 7"),
    ],
)
def test_several_processes_that_cannot_begin_say_so_once(work, source, arguments, code, error):
    with work(source.replace("{url!r}", "'sqlite:///jobs.db'"), *arguments.split()) as command:
        assert command.process.wait(60) == code
        assert f"pywheel: {error}" in command.err
        assert command.err.count("pywheel:") == 1


# ---- pipes ----------------------------------------------------------------------------------------------------------


def test_a_list_whose_reader_has_seen_enough_ends_without_a_word(queue, url):
    queue.put_many([queue.job("t", b"x" * 1_000) for _ in range(2_000)])
    for option in ("", "--json"):
        command = f"{sys.executable} -m pywheel.cli list -n 2000 {option} -s {url} | head -c 9; echo ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", command], env=environment(), capture_output=True, timeout=60, check=True)
        assert result.stderr == b""
        assert result.stdout[9:] == b"0\n"
