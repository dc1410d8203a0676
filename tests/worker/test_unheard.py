"""Commits and leases of a store that its worker did not hear of, on every kind of store."""

import pytest

from pywheel import Fixed, StoreAway
from pywheel.events import JobEnded, LeaseLost
from pywheel.jobs import Outcome, State
from pywheel.jobs.commands import Ack, Claim, Nack
from pywheel.worker import leases
from tests.jobs.waiting import finished, until, working
from tests.worker.each_store import url

__all__ = ["url"]


@pytest.fixture
def handled(live_queue):
    """The id and the attempt of each job that was handled."""
    found = []
    live_queue.handler("t", ttr="1h", concurrency=8)(lambda job: found.append((job.id, job.attempt)))
    return found


@pytest.mark.parametrize("when", ["at once", "only after the worker has asked"])
def test_a_job_whose_claim_was_not_heard_of_is_handled_and_not_when_its_lease_is_over(
    live_queue, handled, monkeypatch, when
):
    """Whenever the commit ends that claimed it."""
    store, lost = live_queue.store, []
    apply = store.apply
    ids = live_queue.put_many([live_queue.job("t") for _ in range(5)])

    def cut(commands, *others):
        claims = [command for command in commands if isinstance(command, Claim)]
        if claims and not lost:
            lost.extend(claims)
            if when == "at once":
                apply(commands, *others)
            raise StoreAway("the connection broke in a commit, and whether it happened is not known")
        if lost:
            monkeypatch.setattr(store, "apply", apply)
            if when != "at once":
                apply(lost)
        return apply(commands, *others)

    monkeypatch.setattr(store, "apply", cut)
    with working(live_queue):
        until(lambda: len(handled) == 5)
    assert sorted(handled) == [(id, 1) for id in ids]
    assert lost


@pytest.mark.parametrize(("fails", "error"), [(False, StoreAway), (True, StoreAway), (False, OSError)])
def test_an_end_whose_answer_was_lost_is_told_once_and_not_as_a_lost_lease(live_queue, monkeypatch, fails, error):
    told, dead, store = [], [], live_queue.store
    apply = store.apply
    live_queue.events.listen(told.append)
    live_queue.on_dead(lambda job: dead.append(job.id))

    @live_queue.handler("t")
    def handle(job):
        if fails:
            raise ValueError("as it is told")

    def cut(commands, *others):
        found = apply(commands, *others)
        if any(isinstance(command, Ack | Nack) for command in commands):
            monkeypatch.setattr(store, "apply", apply)
            raise error("the server crashed during a commit, and its outcome is not known")
        return found

    monkeypatch.setattr(store, "apply", cut)
    ids = live_queue.put_many([live_queue.job("t", max_attempts=1) for _ in range(5)])
    with working(live_queue):
        until(lambda: sum(isinstance(event, JobEnded | LeaseLost) for event in told) == 5)
        until(lambda: sorted(dead) == (ids if fails else []))
    ends = {(one.job.id, one.outcome, one.state) for one in told if isinstance(one, JobEnded)}
    end = (Outcome.FAILED, State.DEAD) if fails else (Outcome.DONE, State.DONE)
    assert ends == {(id, *end) for id in ids}


@pytest.mark.parametrize("any_url", ["postgres", "mariadb"], indirect=True)
@pytest.mark.parametrize("lane", ["_steps", "_claims"])
def test_so_it_is_of_claims_beside_many_ends(live_queue, handled, monkeypatch, lane):
    told, cut, store = [], [], live_queue.store
    tried = store._tried_on
    monkeypatch.setattr(leases, "HOLD", 600_000)  # a busy machine may take longer than what is held is held
    live_queue.events.listen(told.append)
    ids = live_queue.put_many([live_queue.job("t") for _ in range(5_000)])

    def lost(there, commands):
        found = tried(there, commands)
        if cut or there is not getattr(store, lane):
            return found
        cut.append(commands)
        return [StoreAway("the server crashed during a commit, and its outcome is not known")] * len(found)

    monkeypatch.setattr(store, "_tried_on", lost)
    with working(live_queue):
        until(lambda: sum(isinstance(event, JobEnded | LeaseLost) for event in told) == len(ids))
    assert sorted(handled) == [(id, 1) for id in ids]
    ended = {(one.job.id, one.outcome) for one in told if isinstance(one, JobEnded)}
    assert ended == {(id, Outcome.DONE) for id in ids}
    assert cut


def test_a_dead_consumers_job_is_due_again_though_nobody_else_knows_it(live_queue):
    """A `reserve()` loop that dies leaves a lease that no worker gave."""
    live_queue.handler("t")(print)
    id = live_queue.put("t")
    with working(live_queue):
        live_queue.topics.pause("t")
        live_queue.topics.resume("t")
        finished(live_queue, id)
        other = live_queue.put("u")
        assert [job.id for job in live_queue.reserve("u", ttr=0.3, retry=Fixed(0))] == [other]
        until(lambda: live_queue.jobs.history(other)[0].outcome is not None, limit=30)
    assert live_queue.get(other).state is State.DELAYED
