"""Old and new workers beside each other: either handles the jobs that both understand; others fail with a reason."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pywheel.jobs import State
from pywheel.jobs.queries import ListWorkers
from tests.isolated.child import environment
from tests.jobs.waiting import finished, until
from tests.worker.versioned_shop import program

pytestmark = pytest.mark.stress


@pytest.fixture(params=["sqlite", "postgres"])
def address(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return request.getfixturevalue("postgres_server").url()


def there(queue):
    return sum(bool(member.topics) for member in queue.store.ask(ListWorkers()))


@contextmanager
def workers(queue, url, *versions):
    """Processes that work, one of each version, once all are there."""
    before = there(queue)
    command = [sys.executable, "-m", "tests.worker.versioned_shop", url]
    processes = [subprocess.Popen([*command, str(version)], env=environment()) for version in versions]
    try:
        until(lambda: there(queue) == before + len(versions))
        yield
    finally:
        for process in processes:
            process.terminate()
        assert [process.wait(60) for process in processes] == [0] * len(versions)


def put(queue, topic, count=12, **arguments):
    return [queue.put(topic, {"id": n, **arguments}) for n in range(count)]


def ended(queue, ids):
    """Return the results and the errors of jobs, once all have ended."""
    jobs = [finished(queue, id) for id in ids]
    results = [json.loads(queue.jobs.history(job.id)[-1].result) for job in jobs if job.state is State.DONE]
    return results, {job.last_error for job in jobs if job.state is State.DEAD}


def test_jobs_of_one_version_are_handled_by_the_other_where_their_arguments_fit(address):
    with program(address, 1) as queue, workers(queue, address, 1, 2, 1, 2):
        for topic in ("added", "dropped"):
            results, errors = ended(queue, put(queue, topic))
            assert errors == set()
            assert [id for _, id, *_ in results] == list(range(12))
            assert {shop for _, _, *rest in results for shop in rest} <= {"main"}


@pytest.mark.parametrize(
    ("version", "topic", "arguments", "error"),
    [
        (1, "added", {"shop": "x"}, "added takes no argument 'shop': it takes id"),
        (2, "dropped", {"shop": "x"}, "dropped takes no argument 'shop': it takes id"),
        (2, "wanted", {}, "argument 'shop' of wanted is missing: str"),
        (2, "renamed", {}, "renamed takes no argument 'id': it takes new"),
        (1, "wanted", {"id": "7"}, "argument 'id' of wanted must be int: Expected `int`, got `str`"),
    ],
)
def test_arguments_of_another_version_are_a_failed_attempt_that_says_which(address, version, topic, arguments, error):
    with program(address, version) as queue, workers(queue, address, version):
        results, errors = ended(queue, put(queue, topic, 2, **arguments))
    assert results == []
    assert errors == {f"pywheel.BadArguments: {error}"}


def test_what_a_version_does_not_know_waits_untouched_for_one_that_does(address):
    with program(address, 1) as queue:
        with workers(queue, address, 1, 1):
            kept = put(queue, "of the new alone") + put(queue, "moved to")
            ours = put(queue, "of the old alone") + put(queue, "moved from")
            assert len(ended(queue, ours)[0]) == len(ours)
            for id in kept:
                assert (queue.get(id).state, queue.get(id).claims, queue.jobs.history(id)) == (State.DELAYED, 0, [])
            with workers(queue, address, 2):
                assert len(ended(queue, kept)[0]) == len(kept)
        assert all(queue.get(id).attempt == 1 for id in kept)
