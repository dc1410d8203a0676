"""A store with jobs in every place, to be damaged on purpose."""

import threading
from contextlib import suppress

from pywheel import JobExists, JobQueue
from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.jobs.queries import CountJobs, GetJob, ListJobs
from pywheel.stores import Filter

__all__ = ["NOW", "Jobs", "beside", "found", "ids", "mended"]

NOW = 1_700_000_000_000
TERMS = ClaimPolicy(60_000, 3)


class Jobs:
    """Ids of jobs by where they are, put into an empty store whose clock says NOW."""

    def __init__(self, store):
        def apply(command):
            [outcome] = store.apply([command])
            assert not isinstance(outcome, Exception), outcome
            return outcome

        self.plain, self.keyed, self.running, self.done, self.dead, self.cancelled, self.again = apply(
            ops.Put(
                (
                    NewJob("t", b"plain", NOW + 10**6),
                    NewJob("t", b"keyed", NOW + 10**6, "key"),
                    NewJob("t", b"running", NOW - 7, "run"),
                    NewJob("t", b"done", NOW - 6, "old"),
                    NewJob("t", b"dead", NOW - 5),
                    NewJob("t", b"cancelled", NOW + 10**6),
                    NewJob("t", b"again", NOW - 4),
                )
            )
        )
        claimed = {job.id: job for job in apply(ops.Reserve("t", 100, TERMS, "w"))}
        assert sorted(claimed) == sorted([self.running, self.done, self.dead, self.again])
        assert apply(ops.Ack(self.done, claimed[self.done].claims))
        assert apply(ops.Nack(self.dead, claimed[self.dead].claims, None, "e")) is State.DEAD
        assert apply(ops.Nack(self.again, claimed[self.again].claims, 10**6, "e")) is State.DELAYED
        assert apply(ops.Cancel(self.cancelled))
        assert store.verify() == []

    def __iter__(self):
        return iter((self.plain, self.keyed, self.running, self.done, self.dead, self.cancelled, self.again))


def ids(*pairs):
    """Return what is wrong as `found` does: faults with the ids of their examples."""
    return {fault.what: list(some) for fault, some in pairs}


def found(store):
    """Return what is wrong: the examples by what they are."""
    return {finding.what: list(finding.examples) for finding in store.verify()}


def mended(store):
    """Repair; return what was repaired, after which nothing is wrong and every list agrees with every count."""
    findings = store.verify(repair=True)
    assert all(finding.repaired == bool(finding.remedy) for finding in findings), findings
    assert store.verify() == [finding._replace(repaired=False) for finding in findings if not finding.repaired]
    assert store.verify(repair=True) == store.verify()
    recount(store)
    return {finding.what: list(finding.examples) for finding in findings}


def recount(store):
    jobs = store.ask(ListJobs(Filter(), 0, 10**6))
    for topic, counts in store.ask(CountJobs()).items():
        for state in State:
            listed = [job.id for job in jobs if (job.topic, job.state) == (topic, state)]
            assert getattr(counts, state.value) == len(listed)
            assert [job.id for job in store.ask(ListJobs(Filter(topic, state), 0, 10**6))] == listed
    for job in jobs:
        assert store.ask(GetJob(job.id)) == job
        if job.key is not None:
            assert store.ask(GetJob((job.topic, job.key))) is not None


def beside(url):
    """Verify and repair a store on which threads put, claim and end jobs with keys."""
    with JobQueue(url) as queue:
        over, errors, rounds = threading.Event(), [], []

        def work(key):
            try:
                while not over.is_set():
                    with suppress(JobExists):  # the other thread may have one of them in hand
                        queue.put_many(queue.job("t", n, key=f"{key}{n}", replace=True) for n in range(3))
                    for job in queue.reserve("t", 3):
                        assert queue.ack(job)
                    rounds.append(key)
            except Exception as error:
                errors.append(error)
                raise

        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for number in range(10):
            assert queue.store.verify(repair=number % 2 == 1) == []
        over.set()
        for thread in threads:
            thread.join(60)
        assert (errors, set(rounds)) == ([], {"a", "b"})
        assert queue.store.verify() == []
