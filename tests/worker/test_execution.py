"""One way to run a handler, in threads and in tasks."""

import asyncio
from contextlib import contextmanager

import pytest

from pywheel import Job, State
from pywheel.events import Events, Tracer
from pywheel.execution import Ended, Execution
from pywheel.execution.loading import end_of
from pywheel.jobs.handler import NotNow, Skipped, current_job, to_the_end
from pywheel.jobs.schedule import NAME

JOB = Job(1, "t", b"", 0, 0, State.RUNNING)
TICK = JOB._replace(headers={NAME: "nightly"})


class Spans(Tracer):
    """Notes what happens, in order."""

    def __init__(self):
        self.said = []

    def __call__(self, event):
        pass

    def sending(self, sent):
        raise AssertionError

    @contextmanager
    def handling(self, job):
        self.said.append("begins")
        try:
            yield
        finally:
            self.said.append("ends")

    def carried(self):
        return {}

    def going_on(self, carried):
        raise AssertionError


def in_thread(execution, job):
    return execution.run(job, lambda rest: asyncio.run(to_the_end(rest)))


def in_task(execution, job):
    async def program():
        ended = await execution.arun(job)
        assert current_job.get() is None
        return ended

    return asyncio.run(program())


@pytest.fixture(params=[in_thread, in_task])
def run(request):
    return request.param


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_whatever_is_raised_is_returned(run, error):
    def fails(job):
        raise error

    ended = run(Execution(fails, None), JOB)
    assert (type(ended.error), ended.result) == (error, None)
    assert current_job.get() is None


def test_a_tick_is_admitted_before_its_span_begins(run):
    spans = Spans()
    said = spans.said
    execution = Execution(lambda job: said.append("runs"), Events([spans]), admit=lambda job: said.append("admitted"))
    assert run(execution, TICK) == Ended()
    assert said == ["admitted", "begins", "runs", "ends"]
    said.clear()
    run(execution, JOB)
    assert said == ["begins", "runs", "ends"]


def test_a_tick_that_may_not_run_has_no_span(run):
    spans = Spans()

    def refuse(job):
        raise Skipped("paused")

    ended = run(Execution(spans.said.append, Events([spans]), admit=refuse), TICK)
    assert isinstance(ended.error, Skipped)
    assert spans.said == []


@pytest.mark.parametrize("job", [TICK, JOB._replace(expires=1)], ids=["tick", "expires"])
def test_a_job_is_given_back_unspent_if_there_is_no_thread_to_ask_whether_it_may_run(refuse_threads, job):
    ran, free = [], []
    refuse_threads("asyncio", lambda _: not free)
    ended = in_task(Execution(ran.append, None), job)
    assert (type(ended.error), ran) == (NotNow, [])
    free.append(True)
    assert in_task(Execution(ran.append, None), job) == Ended()
    assert ran == [job]


@pytest.mark.parametrize(
    ("code", "said"), [(3, "exit code 3"), (-9, "killed by SIGKILL"), (-40, "killed by signal 40")]
)
def test_the_end_of_a_process_is_said_also_by_a_signal_without_a_name(code, said):
    assert end_of(code) == said
