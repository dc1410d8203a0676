"""Claims that a store has made without its worker hearing of it, on every kind of store."""

from pywheel import StoreAway
from pywheel.jobs.commands import Claim
from tests.jobs.waiting import until, working
from tests.worker.each_store import url

__all__ = ["url"]


def test_a_job_whose_claim_was_not_heard_of_is_handled_at_once_and_not_when_its_lease_is_over(live_queue, monkeypatch):
    handled, store = [], live_queue.store
    apply = store.apply
    live_queue.handler("t", ttr="1h")(lambda job: handled.append((job.id, job.attempt)))
    ids = live_queue.put_many([live_queue.job("t") for _ in range(5)])

    def cut(commands, *others):
        found = apply(commands, *others)
        if any(isinstance(command, Claim) for command in commands):
            monkeypatch.setattr(store, "apply", apply)
            raise StoreAway("the server broke down in a commit, and whether it happened is not known")
        return found

    monkeypatch.setattr(store, "apply", cut)
    with working(live_queue):
        until(lambda: len(handled) == 5)
    assert sorted(handled) == [(id, 1) for id in ids]
    assert live_queue.store.apply == apply  # it was cut
