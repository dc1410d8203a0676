"""Behind pgbouncer in transaction mode: each transaction gets any session."""

from itertools import count

import pytest

from pywheel import JobQueue, NotAStore
from pywheel.jobs import State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores import open
from tests.jobs.waiting import finished, working
from tests.stores.calls import TERMS, in_threads
from tests.stores.files import put


@pytest.fixture
def url(pgbouncer_server):
    return pgbouncer_server.url()


def settings(server, url):
    """Return what the sessions behind the pooler have been set to."""
    names = ("enable_seqscan", "synchronous_commit", "plan_cache_mode", "idle_in_transaction_session_timeout")
    with server.connect() as connection:
        return [connection.execute(f"SHOW {name}").fetchone()[0] for name in names]


def test_all_but_workers_works_and_leaves_no_setting_behind(pgbouncer_server, url):
    fresh = settings(pgbouncer_server.behind, url)
    with open(url) as store:

        def work():
            for _ in range(20):
                id = put(store, key=f"k{next(numbers)}")
                for job in store.apply([ops.Reserve("t", 1, TERMS, "w")])[0]:
                    assert store.apply([ops.Ack(job.id, job.claims)]) == [True]
                store.ask(GetJob(id))
                store.ask(CountJobs())

        numbers = count()
        in_threads(*[work] * 4)
        assert sum(store.ask(CountJobs())["t"]) == 80
        for _ in range(10):
            assert settings(pgbouncer_server, url) == fresh


def test_a_worker_says_at_once_that_it_needs_the_server_itself(url):
    with open(url) as store, pytest.raises(NotAStore, match=r"pooler such as pgbouncer.*give workers the address of"):
        store.notifier("w")


@pytest.mark.parametrize("behind", [True, False], ids=["behind", "beside"])
def test_workers_that_look_for_hints_behind_it_or_go_straight_to_the_server_hear_producers_behind_it(
    pgbouncer_server, url, behind
):
    place = f"{url}&notify=off" if behind else pgbouncer_server.behind.again(url)
    with JobQueue(place) as queue, JobQueue(url) as producer:
        queue.handler("t")(print)
        with working(queue):
            for _ in range(3):
                assert finished(queue, producer.put("t")).state is State.DONE


def test_a_connection_of_the_caller_that_prepares_statements_is_told_how_not_to(pgbouncer_server, url):
    def put_often():
        for _ in range(20):  # there are fewer sessions: one has the statements of another connection
            with pgbouncer_server.connect(autocommit=False, prepare_threshold=0) as theirs:
                queue.put("t", connection=theirs)

    with JobQueue(url) as queue, pytest.raises(NotAStore, match="prepare_threshold=None"):
        put_often()
