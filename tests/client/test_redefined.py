"""A cell of a notebook that is run again gives its handlers and schedules anew; a program's mistake is refused."""

import sys
from types import ModuleType

import pytest

from pywheel import BadOption
from pywheel.testing import QueueTester

CELL = """
@queue.task()
def close(order: int):
    done.append((order, {run}))

@queue.handler("raw")
def raw(job):
    done.append(("raw", {run}))

@queue.every("{run}h")
def sweep():
    done.append(("sweep", {run}))

@queue.cron("0 3 * * *", name="nightly")
@queue.task("report")
def report():
    done.append(("report", {run}))
"""


@pytest.fixture
def session(monkeypatch):
    """The module of an interactive session, with a queue in memory."""
    main = ModuleType("__main__")
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    monkeypatch.setitem(sys.modules, "__main__", main)
    with QueueTester() as jobs:
        main.queue, main.done, main.jobs = jobs.queue, [], jobs
        yield main


def test_the_last_run_of_a_cell_counts(session):
    for run in (1, 2):
        exec(CELL.format(run=run), vars(session))
    session.close.put(7)
    session.queue.put("raw")
    session.jobs.run_due()
    assert session.done == [(7, 2), ("raw", 2)]
    session.jobs.advance("2d")
    assert [what for what in session.done[2:] if what[0] == "report"] == [("report", 2)] * 2
    assert [what for what in session.done[2:] if what[0] == "sweep"] == [("sweep", 2)] * 24


def test_another_function_of_a_session_is_refused(session):
    exec(CELL.format(run=1), vars(session))
    with pytest.raises(BadOption, match="has a handler already"):
        exec("@queue.handler('raw')\ndef other(job): ...", vars(session))
    with pytest.raises(BadOption, match="has a handler already"):
        exec("queue.handler('new')(lambda job: 1); queue.handler('new')(lambda job: 2)", vars(session))
    with pytest.raises(BadOption, match="there is a schedule"):
        exec("@queue.every('1h', name='sweep')\ndef other(): ...", vars(session))


def test_a_program_that_says_a_handler_twice_is_refused(session, monkeypatch):
    monkeypatch.delattr(sys, "ps1")
    exec(CELL.format(run=1), vars(session))
    with pytest.raises(BadOption, match="has a handler already"):
        exec(CELL.format(run=2), vars(session))
