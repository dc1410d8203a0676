"""Listeners: which events each hears, and that none disturbs another."""

from pywheel.events import Events, JobEnded, JobStarted, StoreBack
from pywheel.jobs import Job, Outcome, State

JOB = Job(id=1, topic="t", body=b"", due=0, created=0, state=State.RUNNING)
ENDS = [JobEnded(JOB, Outcome.DONE, State.DONE, seconds, None) for seconds in (0.1, 0.2)]


class Many:
    def __init__(self):
        self.heard = []

    def __call__(self, event):
        self.heard.append(event)

    def many(self, events):
        self.heard.append(list(events))


def test_who_takes_many_events_at_once_gets_them_so_and_the_others_one_by_one():
    one, many = [], Many()
    events = Events([one.append, many])
    events.emit_many(ENDS)
    assert one == ENDS
    assert many.heard == [ENDS]


def test_the_log_hears_of_what_is_rare_alone():
    log, listener = [], []
    events = Events([listener.append], log.append)
    events.emit_many(ENDS)
    for event in (JobStarted(JOB, 0.0), StoreBack(1)):
        events.emit(event)
    assert listener == [*ENDS, JobStarted(JOB, 0.0), StoreBack(1)]
    assert log == [StoreBack(1)]


def test_a_listener_that_raises_at_one_event_hears_of_the_next_and_so_do_the_others(caplog):
    heard, other = [], []

    def fails(event):
        heard.append(event)
        raise ValueError(event)

    class FailsAtMany(Many):
        def many(self, events):
            super().many(events)
            raise ValueError(events)

    many = FailsAtMany()
    Events([fails, many, other.append]).emit_many(ENDS)
    assert heard == other == ENDS
    assert many.heard == [ENDS]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3
