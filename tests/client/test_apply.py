"""Commands by hand: one or some together, blocking or for asyncio."""

import asyncio

import pytest

from pywheel import JobExists
from pywheel.events import JobsPut
from pywheel.jobs import NewJob
from pywheel.jobs.commands import Cancel, Put, SetNote
from tests.jobs.waiting import until

JOB = NewJob("t", b"b", 0)
KEYED = NewJob("t", b"b", 0, "k")


@pytest.fixture(params=["blocking", "asyncio"])
def applied(request, queue):
    """Return what `apply` and `apply_all` do, in one of two ways."""
    if request.param == "blocking":
        return queue.calls.apply, queue.calls.apply_all
    return (
        lambda command: asyncio.run(_awaited(lambda: queue.calls.aapply(command))),
        lambda commands: asyncio.run(queue.calls.aapply_all(commands)),
    )


async def _awaited(call):
    return await call()


def test_commands_together_are_one_transaction(applied, queue):
    _, apply_all = applied
    calls = []
    apply = queue.store.apply
    queue.store.apply = lambda commands: calls.append(len(commands)) or apply(commands)
    ids, before = apply_all([Put((JOB, KEYED), "n"), SetNote("idem:n", b"print", 1_000, absent=True)])
    again, print_ = apply_all([Put((JOB, KEYED), "n"), SetNote("idem:n", b"print", 1_000, absent=True)])
    refused, other = apply_all([Put((KEYED,)), Put((JOB,))])
    assert (again, before, print_) == (ids, None, b"print")
    assert isinstance(refused, JobExists)
    assert len(other) == 1
    assert calls == [2, 2, 2]
    assert apply_all([]) == []


def test_jobs_that_are_put_so_are_told_of(applied, queue):
    apply, apply_all = applied
    told = []
    queue.events.listeners = (told.append,)
    apply(Put((JOB, KEYED)))
    apply_all([Put((JOB,)), Put((KEYED,)), Cancel(1)])
    apply(Cancel(1))
    until(lambda: told == [JobsPut("t", 2), JobsPut("t", 1)])  # of asyncio's a thread tells, after the answer
