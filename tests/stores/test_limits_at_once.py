"""A limit holds for all simultaneous claims: each store object stands for a process of its own."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from uuid import uuid4

import pytest

from pywheel import JobQueue, Limit, StoreError
from pywheel.jobs.commands import Ack, Cancel, Change, Claim, ClaimPolicy, Reserve, SetNote
from pywheel.jobs.job import NewJob
from pywheel.jobs.limits import limits_of
from pywheel.jobs.queries import CountJobs
from pywheel.stores import open
from tests.jobs.waiting import until, working
from tests.stores import calls
from tests.stores.network import Proxy, kept_at_each_message

PROCESSES = 4
EACH = 3  # jobs that each of them asks for
NOW = 1_000  # a due time that has passed
KINDS = ["sqlite", *(pytest.param(kind, marks=pytest.mark.servers) for kind in ("postgres", "mariadb", "redis"))]
LIMITS = [3, Limit(1, per=":")]


@pytest.fixture(params=KINDS)
def stores(request, tmp_path):
    """The same empty store, opened by several."""
    if request.param == "sqlite":
        addresses = [f"sqlite:///{tmp_path}/jobs.db"] * PROCESSES
    else:
        server = request.getfixturevalue(f"{request.param}_server")
        first = server.url()
        addresses = [first, *(server.again(first) for _ in range(PROCESSES - 1))]
    with ExitStack() as opened:
        yield [opened.enter_context(open(address)) for address in addresses]


def terms_of(limit, ttr=600_000):
    return ClaimPolicy(ttr, 9, limits=limits_of(limit, None))


def put(store, topic, groups=2):
    """Put jobs whose groups take turns; return their ids."""
    return calls.put(
        store, *(NewJob(topic, b"", NOW, f"{n % groups}:{next(calls.SERIAL)}") for n in range(PROCESSES * EACH))
    )


def at_once(stores, claim):
    """Have each store claim at the same time; return the jobs that began."""
    barrier = threading.Barrier(len(stores))

    def one(number, store):
        barrier.wait(60)
        [outcome] = store.apply([claim(number)])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome if isinstance(outcome, list) else outcome.jobs

    with ThreadPoolExecutor(len(stores)) as threads:
        return [job for jobs in threads.map(one, range(len(stores)), stores) for job in jobs]


def assert_kept(limit, jobs):
    """Say whether these jobs may run at once."""
    most, per = limit if isinstance(limit, Limit) else (limit, None)
    running = Counter(job.key.partition(per)[0] if per else "" for job in jobs)
    assert max(running.values()) <= most, running


@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize("command", [Claim, Reserve])
def test_those_who_claim_the_first_jobs_of_a_topic_at_once_start_no_more_than_the_limit(stores, limit, command):
    policy = terms_of(limit)
    for turn in range(20):
        topic = f"t{turn}"
        ids = put(stores[0], topic)

        def claim(number, topic=topic, ids=ids):
            if command is Reserve:
                return Reserve(topic, EACH, policy, f"w{number}")
            return Claim(topic, tuple(ids[number::PROCESSES]), policy, f"w{number}", EACH)

        jobs = at_once(stores, claim)
        assert_kept(limit, jobs)
        assert jobs  # and the limit holds nobody back for ever


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_those_who_claim_again_and_again_keep_the_limit_though_its_note_is_gone(stores, limit):
    """Places are freed, and now and then somebody deletes the note that guards the limit."""
    policy = terms_of(limit)
    for turn in range(20):
        put(stores[0], "t")
        jobs = at_once(stores, lambda number: Reserve("t", EACH, policy, f"w{number}"))
        assert_kept(limit, jobs)
        assert jobs
        forget = [SetNote("limit:t", None)] if turn % 3 == 0 else []
        stores[1].apply([*(Ack(job.id, job.claims) for job in jobs), *forget])


@contextmanager
def slow_and_quick(server, proxy, timeout):
    """Open one store twice: by way of the proxy, and straight."""
    url = server.url()
    with open(server.again(url, via=proxy)) as slow, open(server.again(url, timeout=timeout)) as quick:
        yield slow, quick


@pytest.mark.parametrize("earlier", [0, 1], ids=["first", "later"])
def test_a_claim_that_is_not_committed_yet_counts(sql_server, earlier):
    """One claim is kept in the network before each of its messages in turn, and another one comes meanwhile."""
    policy = terms_of(1)
    with Proxy(sql_server) as proxy, slow_and_quick(sql_server, proxy, timeout=1) as (slow, quick):

        def begin(topic):
            ids[topic] = put(slow, topic)
            for id in ids[topic][:earlier]:
                [claimed] = slow.apply([Claim(topic, (id,), policy, "earlier", 1)])
                slow.apply([Ack(job.id, job.claims) for job in claimed.jobs])
            return partial(slow.apply, [Claim(topic, (ids[topic][1],), policy, "slow", 1)])

        ids, answers = {}, []
        for topic, answer in kept_at_each_message(proxy, begin):
            answers.append(answer)
            with suppress(StoreError):  # it waited for the other one, for as long as it may
                quick.apply([Claim(topic, (ids[topic][2],), policy, "quick", 1)])
        assert [answer.exception() for answer in answers] == [None] * len(answers)
        assert {counts.running for counts in slow.ask(CountJobs()).values()} == {1}
        assert len(answers) > 2


# ---- what a limit asks for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, Limit(1, per=":")], ids=str)
def test_a_claim_locks_no_job_that_its_limit_holds_back(sql_server, limit):
    """The claim is kept in the network before each of its messages in turn. Meanwhile somebody cancels the others."""
    policy = terms_of(limit)
    with Proxy(sql_server) as proxy, slow_and_quick(sql_server, proxy, timeout=60) as (slow, quick):

        def begin(topic):
            ids[topic] = put(slow, topic, groups=1)
            return partial(slow.apply, [Claim(topic, tuple(ids[topic]), policy, "slow", EACH)])

        ids, answers = {}, {}
        for topic, answer in kept_at_each_message(proxy, begin):
            answers[topic] = answer
            _, *others = ids[topic]
            assert quick.apply([Cancel(id) for id in others]) == [Change.MADE] * len(others)
        for topic, answer in answers.items():
            assert [job.id for job in answer.result()[0].jobs] == ids[topic][:1]
        assert len(answers) > 2


@pytest.mark.parametrize("limit", [1, Limit(1, per=":")], ids=str)
def test_a_worker_under_a_limit_is_sent_the_bodies_of_what_it_starts(server, limit):
    """Beside a backlog of thousands."""
    size, backlog, starts = 20_000, 2_000, 20
    url, gate = server.url(), threading.Semaphore(0)
    with JobQueue(url) as queue:
        for _ in range(0, backlog, 100):
            queue.put_many(queue.job("t", b"x" * size, key=f"g:{uuid4()}") for _ in range(100))
        with Proxy(server) as proxy, JobQueue(server.again(url, via=proxy)) as worked:
            worked.handler("t", concurrency=16, limit=limit)(lambda _: gate.acquire(timeout=60))
            with working(worked):
                gate.release(starts)
                until(lambda: queue.topics.counts()["t"].done == starts)
                until(lambda: queue.topics.counts()["t"].running == 1)
                sent = proxy.passed["answers"]
                gate.release(backlog)
                queue.topics.pause("t")
    assert sent < 2 * size * (starts + 1) + 500 * backlog  # the bodies, and all else that is told of the backlog
