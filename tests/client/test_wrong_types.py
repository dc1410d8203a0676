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
        *(("clock", wrong, "clock must be a pywheel.Clock") for wrong in (5, str)),
        ("encryption", {"a": bytes(32)}, "encryption must be a Keyring"),
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


@pytest.mark.parametrize("path", [5, None, 1.5])
def test_a_backup_goes_to_a_path(tmp_path, path):
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue, pytest.raises(TypeError, match="a backup goes to a path"):
        queue.store.backup(path)


class Callable:
    def __call__(self): ...


SAID = {
    "a worker works for a JobQueue, not": (TypeError, lambda queue, it: Worker(it), [5, None, "shop:queue", JobQueue]),
    "run_due takes a JobQueue, not": (TypeError, lambda queue, it: run_due(it), [5, None, "shop:queue"]),
    "limit must be a whole number": (BadOption, run_due, [-1, "1", 1.5, True]),
    "topics must be a collection of names": (TypeError, lambda queue, it: Worker(queue, topics=it), [5, "t", b"b"]),
    "a topic must be a str": (BadJob, lambda queue, it: Worker(queue, topics=it), [[5], [None]]),
    "an id must be a whole number": (
        BadJob,
        lambda queue, it: queue.store.ask(GetHistories([it])),
        ["x", None, 1.0, True, ("t", "k")],
    ),
    r"by a pair \(topic, key\), not by 'order-7'": (BadJob, JobQueue.cancel, ["order-7"]),
    "a listener must be callable, not int": (TypeError, lambda queue, it: queue.events.listen(it), [5]),
    "a handler is a function of the job .* is none: ": (
        TypeError,
        lambda queue, it: queue.handler("u")(it),
        [lambda: None, lambda job, order: None, lambda job, *, order: None, Callable()],
    ),
    r"write @queue\.handler\(topic\)": (TypeError, JobQueue.handler, [print]),
    "is True or False, not 'no'": (  # the text "no" would be a yes
        TypeError,
        lambda queue, it: queue.handler("u", **{it: "no"})(print),
        ["keep_lease", "isolate", "results"],
    ),
}


@pytest.mark.parametrize("said", SAID)
def test_a_value_of_a_wrong_type_is_refused(queue, said):
    error, call, values = SAID[said]
    ran = []
    queue.handler("t")(ran.append)
    queue.put("t")
    before = list(queue.events.listeners)
    for value in values:
        with pytest.raises(error, match=said):
            call(queue, value)
    assert (ran, list(queue.handlers), list(queue.events.listeners)) == ([], ["t"], before)


def test_a_call_that_was_not_awaited_names_no_job(queue):
    put = queue.aio.put("t")
    with pytest.raises(BadJob, match=r"not by <coroutine .*: await the call that returns it"):
        queue.cancel(put)
    put.close()


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


@pytest.mark.parametrize(
    ("wrong", "of", "call"),
    [
        ("topics", "a filter, did you mean topic", lambda queue: queue.jobs.list(topics="t")),
        ("dely", "a put, did you mean delay", lambda queue: queue.put("t", dely="1m")),
        ("dely", "a put, did you mean delay", lambda queue: asyncio.run(queue.aio.put("t", dely="1m"))),
        ("dely", "a put, did you mean delay", lambda queue: queue.task("t")(lambda: None).options(dely="1m")),
        ("dely", "a task, did you mean delay", lambda queue: queue.task(dely="1m")),
        ("bodies", "an edit", lambda queue: queue.jobs.edit(1, bodies=1)),
        ("time_zone", "every or cron", lambda queue: queue.cron("* * * * *", time_zone="UTC")),
        ("overlp", "every or cron, did you mean over", lambda queue: queue.every("1m", overlp="skip")),
        ("concurency", "a Worker, did you mean concurrency", lambda queue: Worker(queue, concurency=1)),
    ],
    ids="filter put aput task-put task edit cron every worker".split(),
)
def test_an_option_that_is_misspelt_is_told_what_may_have_been_meant(queue, wrong, of, call):
    with pytest.raises(TypeError, match=f"'{wrong}' is not an option of {of}"):
        call(queue)
