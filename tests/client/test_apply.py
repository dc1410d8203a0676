"""Commands by hand: one or some together, blocking or for asyncio."""

import asyncio

from pywheel import JobExists
from pywheel.events import JobsPut
from pywheel.jobs import NewJob
from pywheel.jobs.commands import Cancel, Put, SetNote
from tests.jobs.waiting import until

JOB = NewJob("t", b"b", 0)
KEYED = NewJob("t", b"b", 0, "k")


def apply_all(queue, *commands):
    return asyncio.run(queue.calls.aapply_all(commands))


def test_commands_together_are_one_transaction(queue):
    calls = []
    apply = queue.store.apply
    queue.store.apply = lambda commands: calls.append(len(commands)) or apply(commands)
    ids, before = apply_all(queue, Put((JOB, KEYED), "n"), SetNote("idem:n", b"print", 1_000, absent=True))
    again, print_ = apply_all(queue, Put((JOB, KEYED), "n"), SetNote("idem:n", b"print", 1_000, absent=True))
    refused, other = apply_all(queue, Put((KEYED,)), Put((JOB,)))
    assert (again, before, print_) == (ids, None, b"print")
    assert isinstance(refused, JobExists)
    assert len(other) == 1
    assert calls == [2, 2, 2]
    assert apply_all(queue) == []


def test_jobs_that_are_put_so_are_told_of(queue):
    told = []
    queue.events.listeners = (told.append,)
    queue.calls.apply(Put((JOB, KEYED)))
    apply_all(queue, Put((JOB,)), Put((KEYED,)), Cancel(1))
    queue.calls.apply(Cancel(1))
    until(lambda: told == [JobsPut("t", 2), JobsPut("t", 1)])  # a thread tells, after the answer
