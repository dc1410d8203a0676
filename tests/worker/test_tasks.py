"""Tasks in a worker: a function gets the same arguments and the same surroundings wherever it runs."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pywheel import Fixed, GiveUp, Job, NotNow, Worker, provided
from pywheel.jobs import State
from tests.isolated.child import environment
from tests.jobs.waiting import LIMIT, finished, until, working
from tests.worker import task_shop

PLACES = ["in_thread", "on_loop", *(pytest.param(name, marks=pytest.mark.stress) for name in ("isolated", "aisolated"))]


@pytest.fixture
def shop(tmp_path):
    task_shop.queue.use(f"sqlite:///{tmp_path}/jobs.db")
    yield task_shop
    task_shop.queue.use("memory:")


@pytest.fixture
def notes(tmp_path):
    return tmp_path / "notes"


def put(task, notes, *arguments):
    return task.options(headers={"notes": str(notes), "shop": "main"}).put(*arguments)


def around(n):
    """Return what is noted around a handler that fails for n < 0."""
    raised, dead = (repr(ValueError(n)), [f"dead ValueError: {n}"]) if n < 0 else ("None", [])
    return ["before none", "open", f"handle {n} main", "close", f"after main {raised}", *dead]


def told(notes):
    """Return the lines, without process ids."""
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [line.rpartition(" ")[0] if line.startswith("before") else line for line in lines]


@pytest.mark.parametrize("place", PLACES)
def test_a_task_is_handled_in_its_context_and_what_it_was_given_is_closed(shop, notes, place):
    task = getattr(shop, place)
    with working(shop.queue, topics=[task.topic]):
        ids = [put(task, notes, n) for n in (1, -1)]
        jobs = [finished(shop.queue, id) for id in ids]
    assert [job.state for job in jobs] == [State.DONE, State.DEAD]
    assert sorted(told(notes)) == sorted(around(1) + around(-1))
    elsewhere = f"before none {os.getpid()}" not in notes.read_text()
    assert elsewhere is ("isolated" in place)


def test_what_was_given_to_a_cancelled_handler_is_closed(shop, notes):
    worker = Worker(shop.queue, topics=["hangs"], grace=0)
    worker.start()
    id = put(shop.hangs, notes)
    until(lambda: "hangs" in told(notes))
    worker.stop()
    assert worker.join(60)
    assert told(notes)[-2:] == ["close", "after main CancelledError()"]
    assert shop.queue.get(id).state is State.DELAYED  # given back, unspent


ENDS = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError(),
    StopIteration(),
    NotNow(3_600),
    GiveUp(),
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
@pytest.mark.parametrize("is_async", [False, True])
def test_however_a_handler_ends_what_it_was_given_sees_it_and_is_closed(live_queue, is_async, end):
    seen = []

    @live_queue.provide
    def opened() -> Iterator[list]:
        try:
            yield []
        except BaseException as error:
            seen.append(type(error))
            raise
        finally:
            seen.append("closed")

    def work(opened: list = provided) -> None:
        raise end

    async def awork(opened: list = provided) -> None:
        work(opened)

    task = live_queue.task("t", retry=Fixed(3_600, attempts=2))(awork if is_async else work)
    with working(live_queue):
        task.put()
        until(lambda: "closed" in seen)
    told = RuntimeError if is_async and isinstance(end, StopIteration) else type(end)
    assert seen == [told, "closed"]


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_handler_was_given_is_closed_after_its_lease_was_lost_too(live_queue, metrics, is_async):
    seen = []

    @live_queue.provide
    def opened(job: Job) -> Iterator[list]:
        seen.append(("open", job.claims))
        yield []
        seen.append(("close", job.claims))

    def work(job: Job, opened: list = provided) -> None:
        if job.claims == 1:
            assert live_queue.release(job)  # as if it were over: it is handled again

    async def awork(job: Job, opened: list = provided) -> None:
        work(job, opened)

    task = live_queue.task("t", retry=Fixed(0, attempts=3))(awork if is_async else work)
    with working(live_queue):
        assert finished(live_queue, task.put()).claims == 2
        until(lambda: metrics.total("lease_lost") == 1)
    assert sorted(seen) == [("close", 1), ("close", 2), ("open", 1), ("open", 2)]


SCRIPT = """
import sys
import time
from pywheel import JobQueue, Worker

queue = JobQueue(sys.argv[1])

@queue.task(isolate=True)
def first(n: int) -> None:
    second.put(n + 1)

@queue.task()
def second(n: int) -> None: ...

if __name__ == "__main__":
    first.put(7)
    worker = Worker(queue)
    worker.start()
    while getattr(queue.topics.counts().get("script.second"), "done", 0) < 1:
        time.sleep(0.01)
    worker.stop()
    worker.join()
    print(*sorted(queue.topics.counts()))
"""


@pytest.mark.stress
@pytest.mark.parametrize("command", [["script.py"], ["-m", "script"]])
def test_a_script_s_tasks_have_the_topics_of_its_module_in_every_process(tmp_path, command):
    (tmp_path / "script.py").write_text(SCRIPT)
    url = f"sqlite:///{tmp_path}/jobs.db"
    done = subprocess.run(
        [sys.executable, *command, url], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=LIMIT
    )
    assert done.stdout == "script.first script.second\n", done.stderr
