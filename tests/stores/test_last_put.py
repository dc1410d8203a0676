"""The delivered body of a job that is put again while workers claim: that of the last put that returned."""

import contextlib
import sqlite3
import threading

import pytest

from pywheel import JobExists, JobQueue
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores import open
from tests.jobs.waiting import until, working
from tests.stores.network import Proxy

TERMS = ops.ClaimPolicy(60_000, 3, slack=0)
WAYS = ["claim", "claim beside others", "reserve"]


def put(store, body, key="k", **options):
    """Put a job that is due, and return its id; None if it runs already."""
    [outcome] = store.apply([ops.Put((NewJob("t", body, 0, key, replace=True, **options),))])
    return None if isinstance(outcome, JobExists) else outcome[0]


def claim(store, how, id):
    """Return the jobs that a worker gets."""
    if how == "reserve":
        [jobs] = store.apply([ops.Reserve("t", 9, TERMS, "w")])
        return jobs
    others = [ops.Expire(9)] if how == "claim beside others" else []
    claimed, *_ = store.apply([ops.Claim("t", (id,), TERMS, "w", 1), *others])
    return claimed.jobs


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("trips", range(3))
def test_a_claim_between_whose_trips_a_put_returned_delivers_its_body(server, pool, how, trips):
    url = server.url()
    with Proxy(server) as proxy, open(url) as store, open(server.again(url, via=proxy)) as slow:
        claim(slow, how, 1)  # it is connected
        put(store, b"old")
        id = store.ask(GetJob(("t", "k"))).id
        proxy.stall(after=trips)
        try:
            claimed = pool.submit(claim, slow, how, id)
            until(lambda: claimed.done() or proxy.kept)
            replaced = pool.submit(put, store, b"new")
            with contextlib.suppress(TimeoutError):  # it waits for what the claim has locked
                replaced.result(0.3)
        finally:
            proxy.heal()
        new = replaced.result()  # until then a second claim may leave its job as well
        [job] = claimed.result() or claim(store, how, id)
        assert job.body == (b"new" if new else b"old")


@pytest.mark.parametrize("how", WAYS)
def test_a_claim_beside_a_put_in_an_open_transaction_delivers_what_that_commits(path, pool, how):
    """On SQLite, where the claim waits. On servers it leaves the job: `test_relational_within`."""
    with JobQueue(f"sqlite:///{path}") as queue, contextlib.closing(sqlite3.connect(path)) as connection:
        id = queue.put("t", b"old", key="k")
        connection.execute("BEGIN")
        queue.put("t", b"new", key="k", replace=True, connection=connection)
        claimed = pool.submit(claim, queue.store, how, id)
        with contextlib.suppress(TimeoutError):
            claimed.result(0.1)
        connection.commit()
        [job] = claimed.result()
        assert job.body == b"new"


@pytest.mark.drawn(1)
@pytest.mark.stress
@pytest.mark.parametrize("how", ["worker", "reserve"])
def test_of_each_job_the_last_body_whose_put_returned_is_the_last_delivered(shared_url, pool, how):
    """Each key is put again and again by somebody of its own, while workers claim."""
    if how == "worker" and shared_url.startswith("mysql:"):
        pytest.skip("MariaDB 10.11 may crash, by what its workers are woken with, if they are woken that often")
    # On servers the tests above, and those of snapshots, know at which moments.
    puts = 2_000 if shared_url.startswith("sqlite:") else 700
    delivered, last = {}, {}
    stopped = threading.Event()

    def putting(putter):
        with open(shared_url) as store:
            for number in range(puts):
                key, body = f"{putter}-{number // 4 % 5}", str(number).encode()
                last[put(store, body, key)] = body

    def reserving():
        with open(shared_url) as store:
            while not stopped.wait(0.001):
                jobs = claim(store, "reserve", 0)
                delivered.update((job.id, job.body) for job in jobs)
                store.apply([ops.Ack(job.id, job.claims) for job in jobs])

    with JobQueue(shared_url) as queue:
        queue.handler("t", concurrency=4)(lambda job: delivered.update({job.id: job.body}))
        with working(queue) if how == "worker" else contextlib.nullcontext():
            reservers = [pool.submit(reserving) for _ in range(2 if how == "reserve" else 0)]
            for putter in [pool.submit(putting, number) for number in range(3)]:
                putter.result()
            until(lambda: not any(queue.store.ask(CountJobs())["t"][:2]))
            stopped.set()
            for reserver in reservers:
                reserver.result()
    last.pop(None, None)
    lost = {id for id in last if delivered[id] != last[id]}
    assert not lost, f"{len(lost)} of {len(last)}"
