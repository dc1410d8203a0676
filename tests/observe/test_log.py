"""A listener that writes log lines."""

import logging

from pywheel import StoreBusy
from pywheel.events import (
    ClockStepped,
    JobDied,
    JobEnded,
    JobGivenBack,
    JobSkipped,
    JobsPut,
    LeaseLost,
    PoolStuck,
    StoreBack,
    StoreFailed,
    WorkerDrains,
    WorkerStarted,
    WorkerStopped,
)
from pywheel.jobs import Job, Outcome, State
from pywheel.observe import log

JOB = Job(id=7, topic="t", body=b"", due=0, created=0, state=State.RUNNING, key="a b", attempt=2)


def lines(caplog, *events):
    with caplog.at_level(logging.INFO, "pywheel.jobs"):
        for event in events:
            log(event)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_what_goes_wrong_is_logged_and_what_goes_well_is_not(caplog):
    assert lines(
        caplog,
        JobsPut("t", 1),
        JobEnded(JOB, Outcome.DONE, State.DONE, 0.1, None),
        JobEnded(JOB, Outcome.FAILED, State.DELAYED, 0.1, "ValueError: no"),
        JobEnded(JOB, Outcome.FAILED, State.DEAD, 0.1, "x" * 999),
        JobDied(JOB),
        LeaseLost(JOB),
        JobGivenBack(JOB),
        JobGivenBack(JOB, 2.5),
        JobSkipped(JOB, "the schedule is paused"),
    ) == [
        ("WARNING", 'attempt_failed job=7 topic=t key="a b" attempt=2 error_text="ValueError: no"'),
        ("WARNING", f'attempt_failed job=7 topic=t key="a b" attempt=2 error_text={"x" * 200}'),
        ("ERROR", 'job_dead job=7 topic=t key="a b" attempt=2'),
        ("ERROR", 'job_dead job=7 topic=t key="a b" attempt=2 reason="lease_lost"'),
        ("WARNING", 'lease_lost job=7 topic=t key="a b" attempt=2'),
        ("INFO", 'job_given_back job=7 topic=t key="a b" attempt=2'),
        ("INFO", 'job_skipped job=7 topic=t key="a b" attempt=2 reason="the schedule is paused"'),
    ]
    assert (caplog.records[0].event, caplog.records[0].fields["job"]) == ("attempt_failed", 7)


def test_the_life_of_a_worker_and_its_store_is_logged(caplog):
    error = OSError("no room")
    assert lines(
        caplog,
        WorkerStarted("w", "sqlite:////x.db"),
        StoreFailed(error, 2, 5),
        StoreBack(2),
        PoolStuck("t", 3),
        ClockStepped(-3600.00049),
        WorkerDrains("w", 30.0),
        WorkerStopped("w"),
    ) == [
        ("INFO", 'worker_started worker=w store="sqlite:////x.db"'),
        ("ERROR", "store_error failures=2 unsettled=5"),
        ("WARNING", "store_back failures=2"),
        ("WARNING", "pool_stuck topic=t count=3"),
        ("WARNING", "clock_stepped seconds=-3600.0"),
        ("INFO", "worker_drains worker=w grace=30.0"),
        ("INFO", "worker_stopped worker=w"),
    ]
    assert caplog.records[1].exc_info[1] is error


def test_an_error_of_the_store_is_one_line_and_any_other_has_its_traceback(caplog):
    assert lines(caplog, StoreFailed(StoreBusy("jobs.db: try again"), 1, 0), StoreFailed(KeyError("x"), 2, 0)) == [
        ("ERROR", 'store_error failures=1 unsettled=0 error_text="jobs.db: try again"'),
        ("ERROR", "store_error failures=2 unsettled=0"),
    ]
    known, unknown = caplog.records
    assert known.exc_info is None
    assert isinstance(unknown.exc_info[1], KeyError)
