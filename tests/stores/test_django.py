"""Puts inside Django's transactions: a job exists exactly if the outermost one commits."""

import subprocess
import sys
from itertools import count

import pytest

from pywheel import BadJob, JobExists, JobQueue
from tests.jobs.waiting import until
from tests.stores.calls import listening
from tests.stores.django_database import ALIAS, connected, database, forgotten
from tests.stores.emptied import emptied

pytest.importorskip("django")

from django.db import transaction

from pywheel.jobs.queries import GetJob


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def new_url(request, tmp_path):
    """Returns addresses of stores that are not there."""
    if request.param != "sqlite":
        return request.getfixturevalue(f"{request.param}_server").url
    numbers = count()
    return lambda: f"sqlite:///{tmp_path}/{next(numbers)}.db"


@pytest.fixture
def url(request, new_url):
    return emptied(request.getfixturevalue("mariadb_server")) if "mariadb" in request.node.name else new_url()


@pytest.fixture
def queue(url):
    with JobQueue(url) as queue:
        yield queue


@pytest.fixture
def connection(url, queue):
    yield connected(database(url))
    forgotten()


def atomic(**options):
    return transaction.atomic(using=ALIAS, **options)


def program(url, what):
    """Run a program that puts a job in a transaction; return its id."""
    arguments = [sys.executable, "-m", "tests.stores.django_database", url, what]
    return int(subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True).stdout)


def test_a_job_exists_from_the_outermost_commit_on(queue, connection):
    with atomic():
        with atomic():
            id = queue.put("order", {"n": 1}, key="k", connection=connection)
        assert queue.store.ask(GetJob(id)) is None
    assert queue.store.ask(GetJob(id)).json() == {"n": 1}


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_with_it(queue, connection):
    with atomic():
        first = queue.put("order", connection=connection)
        with atomic():
            queue.put("order", connection=connection)
            transaction.set_rollback(True, using=ALIAS)
        mark = transaction.savepoint(using=ALIAS)
        queue.put("order", connection=connection)
        transaction.savepoint_rollback(mark, using=ALIAS)
        second = queue.put("order", connection=connection)
    assert [job.id for job in queue.jobs.list("order")] == [first, second]
    assert queue.topics.counts()["order"].delayed == 2


def test_a_key_that_is_taken_is_refused_and_the_transaction_goes_on(queue, connection):
    queue.put("order", key="k")
    with atomic():
        with pytest.raises(JobExists):
            queue.put("order", key="k", connection=connection)
        id = queue.put("order", key="other", connection=connection)
        assert not connection.needs_rollback
    assert queue.store.ask(GetJob(id)).key == "other"


def test_a_put_in_no_transaction_is_refused(queue, connection):
    with pytest.raises(BadJob, match="begin one"):
        queue.put("order", connection=connection)
    connection.set_autocommit(False)
    id = queue.put("order", connection=connection)
    assert queue.store.ask(GetJob(id)) is None
    connection.commit()
    connection.set_autocommit(True)
    assert queue.store.ask(GetJob(id)).topic == "order"


def test_the_connection_of_djangos_own_name_is_taken_too(queue, connection):
    from django.db import connections
    from django.utils.connection import ConnectionProxy

    with atomic():
        id = queue.put("order", connection=ConnectionProxy(connections, ALIAS))
    assert queue.store.ask(GetJob(id)).topic == "order"


def test_a_store_knows_its_drivers_errors_though_django_has_loaded_parts_of_it_once_more(new_url, connection):
    url = new_url()
    with JobQueue(url) as queue:  # its tables are missing
        queue.put("order", key="k")
        with pytest.raises(JobExists):
            queue.put("order", key="k")
    with JobQueue(url) as queue, pytest.raises(JobExists):
        queue.put("order", key="k")


@pytest.mark.stress
@pytest.mark.parametrize("what", ["ends", "closes"])
def test_workers_hear_of_it_though_the_program_is_over_right_after_the_commit(url, queue, what):
    notifier, heard = listening(queue.store, "order"), set()
    id = program(url, what)

    def told():
        notifier.wait(0.05)
        hints = notifier.hints()
        heard.update(due.id for due in hints.due)
        notifier.beat(0)
        return id in heard or hints.reload

    until(told)
    notifier.close()


@pytest.mark.stress
def test_a_process_that_dies_before_the_commit_leaves_nothing(url, queue, connection):
    assert program(url, "dies") > 0
    assert queue.jobs.list("order") == []
    with atomic():  # waits for what the dead one had locked
        id = queue.put("order", key="k", connection=connection)
    assert [job.id for job in queue.jobs.list("order")] == [id]
