"""The command in a process of its own: completion, a missing extra, a worker."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pywheel import JobQueue
from pywheel.jobs import State
from tests.isolated.child import environment, run
from tests.jobs.waiting import until

pytestmark = pytest.mark.stress

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals and shells of POSIX")
MODULE = """
from pywheel import JobQueue
queue = JobQueue({url!r})
@queue.handler("t")
def handle(job):
    print("handled", job.id, flush=True)
"""


def test_completion_can_be_had():
    result = run("-m", "pywheel.cli", "--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert result.returncode == 0
    assert "complete" in result.stdout


def test_without_the_extra_it_says_how_to_get_it():
    code = "import sys; sys.modules['typer'] = None; from pywheel.cli import main; main()"
    result = run("-c", code)
    assert result.returncode == 2
    assert result.stderr == "pywheel: the command line needs typer: pip install 'pywheel-timer[cli]'\n"


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


def test_nothing_given_shows_the_help():
    result = run("-m", "pywheel.cli")
    assert result.returncode == 2
    assert "\nOne job:\n" in result.stdout
    assert "\nAt work:\n" in result.stdout
    assert any(line.strip().startswith("pywheel work shop:queue") for line in result.stdout.splitlines())
    assert "Exit codes" in result.stdout


@contextlib.contextmanager
def work(folder, source, *arguments, **variables):
    """Run ``pywheel work shop:queue`` with a program; yield its process."""
    (folder / "shop.py").write_text(source)
    command = [sys.executable, "-m", "pywheel.cli", "work", "shop:queue", *arguments]
    variables = {"PYWHEEL_STORE": None, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    process = subprocess.Popen(
        command, cwd=folder, env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def seen(stream):
    """Return a list to which a thread adds each line that comes."""
    lines = []

    def read():
        for line in stream:
            lines.append(line)  # noqa: PERF402  (as it comes)

    threading.Thread(target=read, daemon=True).start()
    return lines


@POSIX
@pytest.mark.parametrize("view", ["--live", "--no-live"])
def test_work_runs_the_handlers_of_a_module_until_it_is_told_to_stop(tmp_path, view):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url) as queue, work(tmp_path, MODULE.format(url=url), view) as process:
        id = queue.put("t")
        until(lambda: queue.get(id).state is State.DONE)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"handled {id}" in out
    assert "Traceback" not in err


@POSIX
@pytest.mark.parametrize("view", ["--live", "--no-live"])
def test_work_ends_with_the_code_of_stores_when_its_store_is_gone(tmp_path, view):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url) as queue, work(tmp_path, MODULE.format(url=url), view) as process:
        id = queue.put("t")
        until(lambda: queue.get(id).state is State.DONE)
        (tmp_path / "jobs.db").unlink()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert f"pywheel: {tmp_path}/jobs.db was deleted while it was open" in err.splitlines()[-1]
    assert "Traceback" not in err


@POSIX
def test_work_says_which_store_it_works_on_and_another_one_can_be_given(tmp_path):
    other = f"sqlite:///{tmp_path}/other.db"
    source = MODULE.format(url="sqlite:///jobs.db")
    with JobQueue(other) as queue:
        id = queue.put("t")
        with work(tmp_path, source, "--store", "sqlite:///other.db") as process:
            until(lambda: queue.get(id).state is State.DONE)
            process.send_signal(signal.SIGTERM)
            assert f"working on {other}, topics t" in process.communicate(timeout=60)[1]
    with work(tmp_path, source, PYWHEEL_STORE=other) as process:
        lines = seen(process.stderr)
        until(lambda: len(lines) >= 2)
    assert f"working on sqlite:///{tmp_path}/jobs.db, topics t" in lines[0]
    assert "PYWHEEL_STORE names another store" in lines[1]


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


@POSIX
def test_a_hang_up_drains_however_often_it_comes(tmp_path):
    """A terminal that is closed may send it, and so may its shell."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    with JobQueue(url) as queue, work(tmp_path, SLOW.format(url=url), "--grace", "50") as process:
        signal.signal(signal.SIGHUP, before)
        id = queue.put("t", ttr="5m")
        lines = seen(process.stderr)
        until((tmp_path / f"began{id}").exists)
        process.send_signal(signal.SIGHUP)
        until(lambda: process.poll() is not None or any("draining" in line for line in lines))
        process.send_signal(signal.SIGHUP)
        (tmp_path / "go").touch()
        assert process.wait(60) == 0
        assert queue.get(id).state is State.DONE


@POSIX
def test_a_hang_up_that_is_ignored_stays_so(tmp_path):
    """As with nohup."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with JobQueue(url) as queue, work(tmp_path, MODULE.format(url=url)) as process:
            signal.signal(signal.SIGHUP, before)
            ids = [queue.put("t")]
            until(lambda: queue.get(ids[0]).state is State.DONE)
            process.send_signal(signal.SIGHUP)
            ids.append(queue.put("t", delay="300ms"))
            until(lambda: queue.get(ids[1]).state is State.DONE)
    finally:
        signal.signal(signal.SIGHUP, before)


@POSIX
@pytest.mark.parametrize("impatient", [False, True])
def test_ctrl_c_says_what_it_waits_for_and_a_second_one_ends_it(tmp_path, impatient):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url) as queue, work(tmp_path, SLOW.format(url=url), "--grace", "50") as process:
        ids = queue.put_many([queue.job("t", ttr="5m") for _ in range(2)])
        lines = seen(process.stderr)
        until(lambda: all((tmp_path / f"began{id}").exists() for id in ids))
        process.send_signal(signal.SIGINT)
        until(lambda: any("draining" in line for line in lines))
        if impatient:
            process.send_signal(signal.SIGINT)
        else:
            (tmp_path / "go").touch()
        process.wait(60)
        assert queue.get(ids[0]).state is (State.DELAYED if impatient else State.DONE)
    said = "".join(lines)
    assert "2 handlers under way, 50 s for them; Ctrl-C once more ends it" in said
    assert "Traceback" not in said


def saying(queue, out):
    """Return what waits until a job that it puts is handled with a word; a process that retires may take one first."""

    def says(word):
        id = queue.put("t")

        def heard():
            nonlocal id
            if any(line.endswith(f" {id}\n") and line != f"{word} {id}\n" for line in out):
                id = queue.put("t")
            return f"{word} {id}\n" in out

        until(heard)

    return says


@POSIX
def test_work_begins_again_when_a_source_changes_and_waits_for_one_that_is_broken(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    source = MODULE.format(url=url)
    with JobQueue(url) as queue, work(tmp_path, source, "--reload", "--no-live") as process:
        err, says = seen(process.stderr), saying(queue, seen(process.stdout))
        says("handled")
        (tmp_path / "shop.py").write_text(source.replace("handled", "treated"))
        until(lambda: any("shop.py has changed" in line for line in err))
        says("treated")
        (tmp_path / "shop.py").write_text("(")
        until(lambda: any("waiting for a change" in line for line in err))
        (tmp_path / "shop.py").write_text(source.replace("handled", "minded"))
        says("minded")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@POSIX
def test_work_keeps_several_processes_alive_and_drains_them_all(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url) as queue, work(tmp_path, MODULE.format(url=url), "--processes", "2") as process:
        ids = queue.put_many([queue.job("t") for _ in range(20)])
        until(lambda: queue.topics.counts()["t"].done == len(ids))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"2 processes working on {url}, topics t" in err
    assert out.count("handled") == len(ids)


@POSIX
@pytest.mark.parametrize("processes", ["1", "2"])
def test_work_runs_so_many_jobs_at_once_in_each_process(tmp_path, processes):
    """They go on until they may end, and each process says how many it has at once."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    source = f"""
import os, pathlib, threading, time
from pywheel import JobQueue
queue, running = JobQueue({url!r}), set()
def handle(job):
    running.add(job.id)
    pathlib.Path({str(tmp_path)!r}, f"most-{{os.getpid()}}-{{len(running)}}").touch()
    while not pathlib.Path({str(tmp_path)!r}, "end").exists():
        time.sleep(0.01)
    running.discard(job.id)
queue.handler("a")(handle)
queue.handler("b")(handle)
"""
    with JobQueue(url) as queue, work(tmp_path, source, "--concurrency", "3", "--processes", processes) as process:
        queue.put_many(queue.job(topic) for _ in range(10) for topic in "ab")
        until(lambda: len(list(tmp_path.glob("most-*-3"))) == int(processes))
        (tmp_path / "end").touch()
        until(lambda: sum(count.done for count in queue.topics.counts().values()) == 20)
        assert not list(tmp_path.glob("most-*-4"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


# ---- pipes ----------------------------------------------------------------------------------------------------------


@POSIX
def test_a_list_whose_reader_has_seen_enough_ends_without_a_word(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url) as queue:
        queue.put_many([queue.job("t", b"x" * 1_000) for _ in range(2_000)])
    for option in ("", "--json"):
        command = f"{sys.executable} -m pywheel.cli list -n 2000 {option} -s {url} | head -c 9; echo ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", command], env=environment(), capture_output=True, timeout=60, check=True)
        assert result.stderr == b""
        assert result.stdout[9:] == b"0\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_put_whose_answer_cannot_be_written_has_happened_and_says_so(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "pywheel.cli", "put", "t", "-s", url]
        result = subprocess.run(
            command, env=environment(), stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert result.returncode == 3
    assert result.stderr.startswith(b"pywheel: the output cannot be written: No space left")
    with JobQueue(url) as queue:
        assert queue.topics.counts()["t"].delayed == 1


@POSIX
def test_a_closed_output_is_not_the_stores_file(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    for closed in (">&-", "<&- >&- 2>&-"):
        command = f"{sys.executable} -m pywheel.cli put t 7 -s {url} {closed}"
        assert subprocess.run(["sh", "-c", command], env=environment(), timeout=60, check=False).returncode == 3
    with JobQueue(url) as queue:
        assert [job.json() for job in queue.jobs.list()] == [7, 7]


# ---- several worker processes ---------------------------------------------------------------------------------------


@POSIX
@pytest.mark.parametrize("view", ["--live", "--no-live"])
def test_several_processes_work_and_end_together(tmp_path, view):
    url = f"sqlite:///{tmp_path}/other.db"
    source = MODULE.format(url="sqlite:///jobs.db")
    source = source.replace('print("handled", job.id, flush=True)', 'os.write(1, f"handled {job.id}\\n".encode())')
    source = "import os\n" + source
    arguments = ("--processes", "2", "--store", "sqlite:///other.db", "--topics", "t", view)
    with JobQueue(url) as queue, work(tmp_path, source, *arguments) as process:
        out, err = seen(process.stdout), seen(process.stderr)
        until(lambda: any(f"2 processes working on {url}, topics t" in line for line in err))
        ids = queue.put_many(queue.job("t") for _ in range(200))
        until(lambda: queue.topics.counts()["t"].done == 200)
        process.send_signal(signal.SIGHUP)
        until(lambda: view == "--live" or any("all workers are replaced" in line for line in err))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    handled = [line.split() for line in out if line.startswith("handled")]
    assert {int(id) for _, id in handled} == set(ids)
    assert any("Ctrl-C once more ends it" in line for line in err)
    assert "Traceback" not in "".join(err)


@POSIX
@pytest.mark.parametrize(
    ("source", "arguments", "code", "error"),
    [
        (MODULE, ("--processes", "0"), 2, "pywheel: Invalid value for '--processes'"),
        (MODULE, ("--processes", "2", "--topics", "mial"), 2, "pywheel: no handler for 'mial': there are t"),
        (MODULE, ("--processes", "2", "--topics", "tt"), 2, "pywheel: no handler for 'tt', did you mean t?"),
        (MODULE, ("--processes", "2", "--store", "sqlite:////no/such/x.db"), 3, "pywheel: /no/such/x.db cannot be"),
        ("raise KeyError(7)", ("--processes", "2"), 2, "pywheel: no worker could begin: KeyError: 7"),
    ],
)
def test_several_processes_that_cannot_begin_say_so_once(tmp_path, source, arguments, code, error):
    with work(tmp_path, source.replace("{url!r}", "'sqlite:///jobs.db'"), *arguments) as process:
        said = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert next(line for line in said.splitlines() if line.startswith("pywheel:")).startswith(error)
    assert said.count("pywheel:") == 1


@POSIX
def test_several_processes_begin_again_when_a_source_changes(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    source = MODULE.format(url=url)
    with JobQueue(url) as queue, work(tmp_path, source, "--processes", "2", "--reload", "--no-live") as process:
        err, says = seen(process.stderr), saying(queue, seen(process.stdout))
        says("handled")
        (tmp_path / "shop.py").write_text(source.replace("handled", "treated"))
        until(lambda: any("shop.py has changed" in line for line in err))
        says("treated")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
