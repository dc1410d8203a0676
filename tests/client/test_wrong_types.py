"""What is of a wrong type is refused in our words, before anything is done."""

import pytest

from pywheel import BadJob, BadOption, JobQueue, Worker
from pywheel.jobs.queries import GetHistories
from pywheel.testing import run_due


@pytest.mark.parametrize("headers", [5, 0, "ab", b"", [("a", "b")], object()])
def test_headers_are_a_mapping(queue, headers):
    with pytest.raises(BadJob, match="headers must be text by name"):
        queue.put("t", headers=headers)
    assert queue.topics.counts() == {}


@pytest.mark.parametrize("jobs", [5, None, object()])
def test_put_many_takes_an_iterable(queue, jobs):
    with pytest.raises(BadJob, match=r"put_many takes what queue\.job\(\.\.\.\) returns"):
        queue.put_many(jobs)


@pytest.mark.parametrize(
    ("name", "wrong"), [("listeners", None), ("listeners", 5), ("listeners", [print, 5]), ("clock", 5), ("clock", str)]
)
def test_a_queue_is_not_opened_with_what_it_cannot_use(tmp_path, name, wrong):
    with pytest.raises(TypeError, match="listener" if name == "listeners" else "a clock is a pywheel.Clock"):
        JobQueue(f"sqlite:///{tmp_path}/jobs.db", **{name: wrong})
    assert list(tmp_path.iterdir()) == []


def test_a_queue_does_not_go_over_to_a_clock_that_is_none(queue):
    store = queue.store
    with pytest.raises(TypeError, match="a clock is a"):
        queue.use("memory:", clock=5)
    assert queue.store is store
    assert queue.put("t") == 1


def test_what_cannot_be_called_is_no_listener(queue):
    with pytest.raises(TypeError, match="a listener is called with each event, and int cannot be"):
        queue.events.listen(5)
    assert len(queue.events.listeners) == 1


@pytest.mark.parametrize("program", [5, None, "shop:queue", JobQueue])
def test_a_worker_works_for_a_program(program):
    with pytest.raises(TypeError, match="a worker works for a JobQueue, not"):
        Worker(program)


@pytest.mark.parametrize("topics", [5, "t", b"b", [5], [None]])
def test_topics_are_a_collection_of_names(queue, topics):
    queue.handler("t")(print)
    with pytest.raises((TypeError, BadJob), match=r"topics are a collection of names|a topic must be a str"):
        Worker(queue, topics=topics)


@pytest.mark.parametrize("program", [5, None, "shop:queue"])
def test_run_due_takes_a_queue(program):
    with pytest.raises(TypeError, match="run_due takes a JobQueue, not"):
        run_due(program)


@pytest.mark.parametrize("limit", [-1, "1", 1.5, True])
def test_run_due_takes_a_whole_number_as_its_limit(queue, limit):
    ran = []
    queue.handler("t")(ran.append)
    queue.put("t")
    with pytest.raises(BadOption, match="limit must be a whole number"):
        run_due(queue, limit)
    assert ran == []


@pytest.mark.parametrize("id", ["x", None, 1.0, True, ("t", "k")])
def test_a_history_is_that_of_an_id(queue, id):
    with pytest.raises(BadJob, match="an id is a whole number"):
        queue.store.ask(GetHistories([id]))[0]


def test_a_history_of_an_id_that_cannot_be_is_empty(queue):
    assert queue.store.ask(GetHistories([-1]))[0] == queue.store.ask(GetHistories([2**80]))[0] == []


@pytest.mark.parametrize("path", [5, None, 1.5])
def test_a_backup_goes_to_a_path(tmp_path, path):
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue, pytest.raises(TypeError, match="a backup goes to a path"):
        queue.store.backup(path)
