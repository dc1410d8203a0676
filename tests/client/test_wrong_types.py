"""Values of a wrong type are refused in our words, before anything is done."""

import asyncio
import functools

import pytest

from pywheel import BadJob, BadOption, JobQueue, StoreError, Worker
from pywheel.jobs.queries import GetHistories
from pywheel.testing import run_due


@pytest.mark.parametrize(
    ("option", "wrong", "said"),
    [
        *(("listeners", wrong, "listener") for wrong in (None, 5, [print, 5])),
        *(("clock", wrong, "a clock is a pywheel.Clock") for wrong in (5, str)),
        ("encryption", {"a": bytes(32)}, "encryption is a Keyring"),
    ],
)
def test_a_queue_is_not_opened_with_what_it_cannot_use(tmp_path, option, wrong, said):
    with pytest.raises(TypeError, match=said):
        JobQueue(f"sqlite:///{tmp_path}/jobs.db", **{option: wrong})
    assert list(tmp_path.iterdir()) == []


def test_what_replaces_needs_the_key_of_what_it_replaces(queue):
    """It would be one more job, and nobody would know."""
    remind = queue.task("remind")(lambda: None)
    for put in (queue.put, queue.job):
        with pytest.raises(BadJob, match="replace is about the job that has the key: give the key too"):
            put("t", replace=True)
    with pytest.raises(BadJob, match="give the key too"):
        remind.options(replace=True).put()
    assert queue.topics.counts() == {}


def test_a_queue_does_not_go_over_to_a_store_or_a_clock_that_is_none(queue):
    store = queue.store
    for place, clock, error in (("memory:", 5, TypeError), ("nonsense:", None, StoreError)):
        with pytest.raises(error):
            queue.use(place, clock=clock)
    assert queue.store is store
    assert queue.put("t") == 1


def test_what_cannot_be_called_is_no_listener(queue):
    with pytest.raises(TypeError, match="a listener is called with each event, and int cannot be"):
        queue.events.listen(5)
    assert len(queue.events.listeners) == 1


@pytest.mark.parametrize("program", [5, None, "shop:queue", JobQueue])
def test_a_worker_works_for_a_program_and_run_due_too(program):
    with pytest.raises(TypeError, match="a worker works for a JobQueue, not"):
        Worker(program)
    with pytest.raises(TypeError, match="run_due takes a JobQueue, not"):
        run_due(program)


@pytest.mark.parametrize("topics", [5, "t", b"b", [5], [None]])
def test_topics_are_a_collection_of_names(queue, topics):
    queue.handler("t")(print)
    with pytest.raises((TypeError, BadJob), match=r"topics are a collection of names|a topic must be a str"):
        Worker(queue, topics=topics)


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


@pytest.mark.parametrize("path", [5, None, 1.5])
def test_a_backup_goes_to_a_path(tmp_path, path):
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue, pytest.raises(TypeError, match="a backup goes to a path"):
        queue.store.backup(path)


class Callable:
    def __call__(self): ...


@pytest.mark.parametrize(
    "function",
    [lambda: None, lambda job, order: None, lambda job, *, order: None, Callable()],
    ids=["nothing", "two", "more by name", "an object"],
)
def test_a_handler_that_cannot_be_called_with_the_job_is_refused_as_it_is_registered(queue, function):
    with pytest.raises(TypeError, match=r"a handler is a function of the job .* is none: "):
        queue.handler("t")(function)
    assert queue.handlers == {}


def test_a_wrapper_is_judged_by_what_itself_takes(queue):
    """Not by what it wraps: it may give that more than it is given."""

    @functools.wraps(lambda job, order: None)
    def handle(job):
        seen.append(job.json())

    @functools.wraps(lambda job: None)
    def retry(job, error): ...

    seen = []
    queue.handler("t", retry=retry)(handle)
    queue.put("t", 7)
    assert run_due(queue) == 1
    assert seen == [7]


@pytest.mark.parametrize("option", ["keep_lease", "isolate", "results"])
def test_what_is_said_of_a_handler_by_true_or_false_is_said_so(queue, option):
    """The text "no" would be a yes."""
    with pytest.raises(TypeError, match=f"{option} is True or False, not 'no'"):
        queue.handler("t", **{option: "no"})(print)


def test_a_handler_without_parentheses_is_told_of_them(queue):
    with pytest.raises(TypeError, match=r"write @queue\.handler\(topic\)"):
        queue.handler(print)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda queue: queue.jobs.list(topics="t"), "'topics' is no option of a filter, did you mean topic"),
        (lambda queue: queue.put("t", dely="1m"), "'dely' is no option of a put, did you mean delay"),
        (lambda queue: asyncio.run(queue.aio.put("t", dely="1m")), "'dely' is no option of a put, did you mean delay"),
        (
            lambda queue: queue.task("t")(lambda: None).options(dely="1m"),
            "'dely' is no option of a put, did you mean delay",
        ),
        (lambda queue: queue.task(dely="1m"), "'dely' is no option of a task, did you mean delay"),
        (lambda queue: queue.jobs.edit(1, bodies=1), "'bodies' is no option of an edit"),
        (lambda queue: queue.cron("* * * * *", time_zone="UTC"), "'time_zone' is no option of every or cron"),
        (lambda queue: queue.every("1m", overlp="skip"), "'overlp' is no option of every or cron, did you mean over"),
        (lambda queue: Worker(queue, concurency=1), "'concurency' is no option of a Worker, did you mean concurrency"),
    ],
    ids="filter put aput task-put task edit cron every worker".split(),
)
def test_an_option_that_is_misspelt_is_told_what_may_have_been_meant(queue, call, said):
    with pytest.raises(TypeError, match=said):
        call(queue)


def test_what_names_no_job_is_shown(queue):
    put = queue.aio.put("t")
    for wrong, said in (("order-7", "'order-7'"), (put, "<coroutine .*: await the call that returns it")):
        with pytest.raises(BadJob, match=rf"by a pair \(topic, key\), not by {said}"):
            queue.cancel(wrong)
    put.close()
