"""A listener that writes log lines."""

import logging

import pytest

from pywheel import StoreBusy
from pywheel import events as e
from pywheel.jobs import Job, Outcome, State
from pywheel.observe import log

JOB = Job(id=7, topic="t", body=b"", due=0, created=0, state=State.RUNNING, key="a b", attempt=2)


def lines(caplog, *events):
    with caplog.at_level(logging.INFO, "pywheel.jobs"):
        for event in events:
            log(event)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


NO_ROOM, BUSY = OSError("no room"), StoreBusy("jobs.db: try again")
OF_JOB = 'job=7 topic=t key="a b" attempt=2'


@pytest.mark.parametrize(
    ("event", "level", "text"),
    [
        (e.JobsPut("t", 1), None, None),  # what goes well
        (e.JobEnded(JOB, Outcome.DONE, State.DONE, 0.1, None), None, None),
        (e.JobGivenBack(JOB, 2.5), None, None),
        (
            e.JobEnded(JOB, Outcome.FAILED, State.DELAYED, 0.1, "ValueError: no"),
            "WARNING",
            f'attempt_failed {OF_JOB} error_text="ValueError: no"',
        ),
        (e.JobDied(JOB), "ERROR", f'job_dead {OF_JOB} reason="lease_lost"'),
        (e.LeaseLost(JOB), "WARNING", f"lease_lost {OF_JOB}"),
        (e.JobGivenBack(JOB), "INFO", f"job_given_back {OF_JOB}"),
        (e.JobSkipped(JOB, "it is paused"), "INFO", f'job_skipped {OF_JOB} reason="it is paused"'),
        (e.WorkerStarted("w", "sqlite:////x.db"), "INFO", 'worker_started worker=w store="sqlite:////x.db"'),
        (e.StoreFailed(NO_ROOM, 2, 5), "ERROR", "store_error failures=2 unsettled=5"),
        (e.StoreFailed(BUSY, 1, 0), "ERROR", 'store_error failures=1 unsettled=0 error_text="jobs.db: try again"'),
        (e.StoreBack(2), "WARNING", "store_back failures=2"),
        (e.PoolStuck("t", 3), "WARNING", "pool_stuck topic=t count=3"),
        (e.ClockStepped(-3600.00049), "WARNING", "clock_stepped seconds=-3600.0"),
        (e.WorkerDrains("w", 30.0), "INFO", "worker_drains worker=w grace=30.0"),
        (e.WorkerStopped("w"), "INFO", "worker_stopped worker=w"),
    ],
)
def test_what_goes_wrong_is_logged_and_what_goes_well_is_not(caplog, event, level, text):
    assert lines(caplog, event) == ([] if level is None else [(level, text)])
    if isinstance(event, e.StoreFailed):  # an error of the store is one line, any other has its traceback
        [record] = caplog.records
        assert (record.exc_info and record.exc_info[1]) is (NO_ROOM if event.error is NO_ROOM else None)


def test_a_death_is_a_line_of_its_own_behind_that_of_its_attempt(caplog):
    assert lines(caplog, e.JobEnded(JOB, Outcome.FAILED, State.DEAD, 0.1, "x" * 999)) == [
        ("WARNING", f"attempt_failed {OF_JOB} error_text={'x' * 200}"),
        ("ERROR", f"job_dead {OF_JOB}"),
    ]
    assert (caplog.records[0].event, caplog.records[0].fields["job"]) == ("attempt_failed", 7)
