"""The producer's side, and programs with a loop of their own."""

import asyncio
import contextvars
import inspect
import json
from datetime import UTC, datetime, timedelta

import pytest

from pywheel import AsyncJobQueue, BadBody, BadJob, BadOption, Change, JobExists, JobQueue, ManualClock, NoSuchJob
from pywheel.client.jobs import AsyncJobs, AsyncTopics, Jobs, Topics
from pywheel.client.schedules import AsyncSchedules, Schedules
from pywheel.jobs import Counts, State
from pywheel.jobs.handler import current_job
from pywheel.jobs.retry import Fixed, Ladder, RetryPolicy
from pywheel.tasks.task import AsyncTask, Task
from pywheel.testing import run_due
from tests.jobs.fixtures import NOW

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_delay_or_a_moment_says_when_a_job_is_due(queue):
    dues = {
        queue.put("t"): NOW,
        queue.put("t", delay=1.5): NOW + 1_500,
        queue.put("t", delay="30m"): NOW + 1_800_000,
        queue.put("t", delay=timedelta(hours=48)): NOW + 172_800_000,
        queue.put("t", delay=-5): NOW,
        queue.put_many([queue.job("t", delay=2)])[0]: NOW + 2_000,
        queue.put("t", at=datetime.fromtimestamp(NOW / 1000 + 7, UTC)): NOW + 7_000,
    }
    assert {id: queue.get(id).due for id in dues} == dues


@pytest.mark.parametrize("body", [None, 7, "text", {"order": [1, 2.5, None, True, "\N{SNOWMAN}"]}, []])
def test_plain_data_travels_as_json(queue, body):
    job = queue.get(queue.put("t", body))
    assert job.json() == json.loads(job.body) == body


def test_bytes_travel_as_they_are_and_are_no_json(queue):
    job = queue.get(queue.put("t", b"\xff\x00"))
    assert job.body == b"\xff\x00"
    with pytest.raises(BadBody, match=f"job {job.id}"):
        job.json()


def test_a_body_that_is_nested_too_deep_is_a_bad_body(queue):
    job = queue.get(queue.put("t", b"[" * 100_000 + b"]" * 100_000))
    with pytest.raises(BadBody, match=f"the body of job {job.id} is nested too deep"):
        job.json()


@pytest.mark.parametrize(("options", "most"), [({}, 2**20), ({"max_body": 1000}, 1000)])
def test_a_body_may_have_as_many_bytes_as_the_limit_and_no_more(url, clock, options, most):
    with JobQueue(url, clock=clock, **options) as queue:
        assert len(queue.get(queue.put("t", b"x" * most)).body) == most
        with pytest.raises(BadJob, match=f"{most + 1} bytes, the limit is {most}"):
            queue.put("t", b"x" * (most + 1))
        assert queue.topics.counts() == {"t": Counts(delayed=1)}


NOWHERE = [
    *("", 5, "two words", "x" * 256, "https://", "https:///path", "ftp://a.example/", "a.example/hook"),
    *("//a.example/hook", "https://user:secret@a.example/", "https://user@a.example/", "https://a.example:99999/"),
    *("https://[::1/", "https://a.example/a b", "https://a.example/\r\nx: y", "https://a.example\\@b.example/"),
    *("https://bücher.example/", "https://a.example/" + "x" * 2_048),
]


@pytest.mark.parametrize(
    ("topic", "options"),
    [
        *((topic, {}) for topic in ("", None, 7, "x" * 16_385, "\ud800")),
        *(("t", {"key": key}) for key in ("", 5, "\udfff")),
        *(("t", {"delay": delay}) for delay in (float("nan"), True, "soon")),
        ("t", {"delay": 1, "at": datetime.now(UTC)}),
        ("t", {"at": datetime(2030, 1, 1)}),
        *(("t", {"ttr": ttr}) for ttr in (-1, 0, "300000d")),
        *(("t", {"max_attempts": most}) for most in (0, 2**64)),
        *(("t", {"expires": wrong}) for wrong in (0, "-1s", "soon", True)),
        ("t", {"traceparent": "nonsense"}),
        *(("t", {"headers": headers}) for headers in ({"a": 1}, 5, 0, "ab", b"", [("a", "b")], object())),
        *(("t", {"to": to}) for to in NOWHERE),
        ("t", {"to": "https://a.example/", "headers": {"to": "https://b.example/"}}),
    ],
)
def test_what_cannot_be_a_job_is_refused_whole(queue, topic, options):
    with pytest.raises(BadJob):
        queue.put(topic, **options)
    assert queue.topics.counts() == {}


@pytest.mark.parametrize("body", [object(), float("nan"), {1, 2}, {("a",): 1}])
def test_what_json_cannot_say_is_refused(queue, body):
    with pytest.raises(BadJob, match="JSON"):
        queue.put("t", body)
    assert queue.topics.counts() == {}


def test_a_job_is_named_by_id_record_or_key(queue):
    id = queue.put("t", key="k", delay=1)
    job = queue.get(id)
    assert queue.get(job) == queue.get(("t", "k")) == job
    assert queue.reschedule(("t", "k"), 9)
    assert queue.cancel(job)
    assert queue.jobs.retry(("t", "k"))


def test_unknown_jobs_are_said_to_be_so(queue):
    for ref in (5, 0, -1, 2**63 - 1, ("t", "k")):
        with pytest.raises(NoSuchJob):
            queue.get(ref)
        with pytest.raises(NoSuchJob):
            queue.jobs.history(ref)
        found = [queue.cancel(ref), queue.jobs.retry(ref), queue.reschedule(ref, 5), queue.jobs.delete(ref)]
        assert found == [Change.NOT_FOUND] * 4
    for ref in ("7", 1.5, None, True, ("t",), 2**63, 10**400_000, -(2**63)):
        for method in (queue.get, queue.jobs.history, queue.cancel, queue.jobs.retry, queue.jobs.delete):
            with pytest.raises(BadJob):
                method(ref)


def test_a_job_that_waits_is_edited_where_it_stands(queue):
    id = queue.put("t", {"n": 1}, key="k", delay="1h", headers={"a": "1"}, ttr=5)
    before = queue.get(id)
    assert queue.jobs.edit(id, body={"n": 2}, priority=3)
    assert queue.get(id) == before._replace(body=b'{"n":2}', priority=3, claims=1)
    assert queue.jobs.edit(id, body=3, expect=before) is Change.CHANGED
    assert queue.jobs.edit(id, body={"n": 2}, expect=queue.get(id))
    assert queue.jobs.edit(("t", "k"), delay=7, headers={"to": "https://b.example/"}, ttr=None, max_attempts=2)
    job = queue.get(id)
    assert (job.due, job.headers, job.ttr, job.max_attempts) == (NOW + 7_000, {"to": "https://b.example/"}, None, 2)
    assert asyncio.run(queue.aio.jobs.edit(id, body=None, at=datetime.fromtimestamp(NOW / 1000, UTC)))
    [job] = queue.reserve("t")
    assert (job.json(), job.priority, job.attempt, job.key) == (None, 3, 1, "k")
    assert queue.jobs.edit(10**6, body=3) is Change.NOT_FOUND


@pytest.mark.parametrize(
    "options",
    [
        *({}, {"delay": None}, {"delay": 1, "at": datetime.now(UTC)}, {"at": datetime(2030, 1, 1)}),
        *({"body": object()}, {"body": b"x" * (2**20 + 1)}, {"headers": {"a": 1}}, {"ttr": 0}, {"max_attempts": 0}),
        *({"priority": 10}, {"priority": None}, {"priority": 1, "expect": 7}),
    ],
)
def test_an_edit_that_makes_no_sense_is_refused_whole(queue, options):
    id = queue.put("t", delay=5)
    before = queue.get(id)
    with pytest.raises(BadJob):
        queue.jobs.edit(id, **options)
    assert queue.get(id) == before


def test_a_change_is_made_or_the_state_that_stood_in_the_way():
    assert [change for change in Change if change] == [Change.MADE]
    assert {state for state in State if Change(state) == state} == set(State)


def test_a_loop_of_ones_own_reserves_and_settles(queue, clock):
    queue.put("t", "a", ttr=5)
    queue.put("t", "b")
    assert queue.reserve("other") == []
    first, second = queue.reserve("t", 10, ttr="10s", retry=Fixed(1, attempts=1))
    assert [first.lease_until, second.lease_until] == [NOW + 5_000, NOW + 10_000]
    clock.advance(timedelta(milliseconds=5_000))
    assert queue.ack(first) is False
    assert queue.touch(second, "1m") is True
    clock.advance(timedelta(milliseconds=59_000))
    assert queue.nack(second, "1s", error="late") is State.DEAD
    assert queue.nack(second) is None
    assert [attempt.error for attempt in queue.jobs.history(second)] == ["late"]


def test_a_touch_without_a_ttr_never_makes_a_jobs_own_lease_shorter(queue, clock):
    queue.put("t", ttr="1h")
    [job] = queue.reserve("t")
    clock.advance(600)
    assert queue.touch(job) is True
    clock.advance(3_599)
    assert queue.reserve("t") == []
    assert queue.ack(job) is True


def test_a_job_that_a_loop_of_ones_own_lost_waits_as_its_retry_policy_says(queue, clock):
    ids = [queue.put("t", key="without"), queue.put("u", key="with")]
    queue.reserve("t", ttr="1s")
    queue.reserve("u", ttr="1s", retry=Fixed("5s", attempts=3))
    clock.advance(timedelta(seconds=2))
    assert [job.id for job in queue.reserve("t", ttr="1s")] == ids[:1]
    assert queue.reserve("u") == []
    assert queue.get(ids[1]).due == NOW + 6_000
    clock.advance(timedelta(seconds=4))
    [job] = queue.reserve("u", ttr="1s")
    assert (job.id, job.attempt) == (ids[1], 2)


def test_reserve_refuses_a_policy_that_does_not_say_what_counts_after_a_lost_lease(queue):
    class Own:
        max_attempts = 3

        def delay(self, attempt):
            return 0

    with pytest.raises(BadOption, match="Own must have delays"):
        queue.reserve("t", retry=Own())


def test_what_was_not_claimed_cannot_be_settled(queue):
    id = queue.put("t")
    for settle in (queue.ack, queue.nack, queue.release, queue.touch, queue.bury):
        with pytest.raises(BadJob, match=r"give the job that reserve returned, not int|its id alone names no claim"):
            settle(id)


def test_a_purge_is_of_what_ended_long_enough_ago(queue, clock):
    for topic in "ab":
        queue.put(topic)
        queue.ack(queue.reserve(topic)[0])
    assert queue.jobs.purge(older_than="1s") == 0
    clock.advance(1)
    assert queue.jobs.purge("done", older_than="1s", topic="a") == 1


@pytest.mark.parametrize("to", ["https://a.example/hook?x=1#y", "http://[2001:db8::1]:8080/", "orders.created"])
def test_where_it_is_to_be_delivered_travels_with_the_job(queue, to):
    queue.put("t", to=to, headers={"tenant": "7"})
    assert queue.reserve("t")[0].headers == {"tenant": "7", "to": to}
    assert queue.job("t", to=to).headers == {"to": to}


def test_a_traceparent_travels_with_the_job(queue):
    queue.put("t", headers={"tenant": "7"}, traceparent=TRACE)
    [job] = queue.reserve("t")
    assert job.traceparent == TRACE
    assert job.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert job.headers == {"tenant": "7", "traceparent": TRACE}
    assert queue.get(queue.put("t")).trace_id is None


@pytest.mark.parametrize("words", [{"max_body": 0}, {"max_body": "1k"}, {"clock": ManualClock()}])
def test_a_queue_that_makes_no_sense_is_refused(queue, words):
    with pytest.raises(BadOption, match=r"max_body|clock of its own"):
        JobQueue(queue.store, **words)


# ---- a handler that puts its successor ------------------------------------------------------------------------------


def test_the_running_job_is_the_parent_of_a_put_with_its_topic_and_key(queue):
    puts, apply = [], queue.store.apply
    queue.put("daily", key="report")
    [job] = queue.reserve("daily")
    queue.store.apply = lambda commands: puts.extend(commands[0].jobs) or [[1]]
    context = contextvars.copy_context()
    context.run(current_job.set, job)
    context.run(queue.put, "daily", key="report")
    context.run(queue.put, "daily", key="other")
    context.run(queue.put, "other", key="report")
    context.run(queue.put, "daily")
    queue.put("daily", key="report")
    queue.store.apply = apply
    assert [put.parent for put in puts] == [(job.id, job.claims), None, None, None, None]


# ---- asyncio --------------------------------------------------------------------------------------------------------


PAIRS = {JobQueue: AsyncJobQueue, Jobs: AsyncJobs, Topics: AsyncTopics, Schedules: AsyncSchedules, Task: AsyncTask}


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("plain", "awaited"), PAIRS.items(), ids=lambda kind: kind.__name__)
def test_both_kinds_have_the_same_methods_with_the_same_arguments(plain, awaited):
    assert public(plain) - {"page", "tick"} == public(awaited)
    for name in public(awaited):
        method, twin = getattr(plain, name), getattr(awaited, name)
        assert twin.__doc__, name
        if inspect.isfunction(twin):
            assert twin.__name__ == name
            assert inspect.signature(method).parameters == inspect.signature(twin).parameters, name
            waits = method is not twin and name != "task"
            assert inspect.iscoroutinefunction(twin) is waits, name
            assert not inspect.iscoroutinefunction(method), name


def test_the_twins_do_the_same(queue):
    async def program():
        id = await queue.aio.put("t", {"n": 1}, key="k")
        assert (await queue.aio.get(id)).json() == {"n": 1}
        with pytest.raises(JobExists):
            await queue.aio.put("t", key="k")
        with pytest.raises(NoSuchJob):
            await queue.aio.get(10**9)
        with pytest.raises(BadJob):
            await queue.aio.put("", key="k")
        [job] = await queue.aio.reserve("t")
        assert await queue.aio.cancel(id) is await queue.aio.jobs.delete(id) is Change.RUNNING
        assert await queue.aio.touch(job, "1m")
        assert await queue.aio.nack(job, 5) is State.DELAYED
        for settle in (queue.aio.release, queue.aio.ack):
            assert await queue.aio.reschedule(id, 0)
            [job] = await queue.aio.reserve("t")
            assert await settle(job)
        assert await queue.aio.topics.pause("t")
        assert await queue.aio.topics.resume("t")
        assert (await queue.aio.topics.counts())["t"].done == 1
        assert await queue.aio.jobs.purge() == 1
        assert await queue.aio.schedules.list() == []

    asyncio.run(program())


def test_a_nack_follows_the_policy_that_jobs_were_reserved_by(queue, clock):
    queue.handler("handled", retry=Fixed("7s"))(lambda job: None)

    def delay(topic, **reserved):
        id = queue.put(topic)
        [job] = queue.reserve(topic, **reserved)
        assert queue.nack(job, error="no") is State.DELAYED
        return queue.get(id).due - clock.wall()

    assert delay("t", retry=Fixed("3s")) == 3_000
    assert delay("handled") == 7_000
    assert 4_000 <= delay("other") <= 6_000  # the default: 5 s, and a jitter


def test_a_nack_says_what_was_wrong_with_the_policy(queue):
    class Odd(RetryPolicy):
        max_attempts = 3
        delays = (1_000, 1_000)

        def delay(self, attempt):
            return "soon"

    id = queue.put("t")
    [job] = queue.reserve("t", retry=Odd())
    assert queue.nack(job, error="no") is State.DELAYED
    assert queue.get(id).last_error.startswith("no (the retry policy Odd gave 'soon'")


def test_a_nack_asks_the_retry_function_that_jobs_were_reserved_by(queue, clock):
    seen = []

    def retry(job, error):
        seen.append((job.attempt, error and str(error)))
        return None if error is not None and "gone" in str(error) else "3s"

    id = queue.put("t")
    for text in (None, "busy"):
        [job] = queue.reserve("t", retry=retry)
        assert queue.nack(job, error=text) is State.DELAYED
        assert queue.get(id).due - clock.wall() == 3_000
        clock.advance(3)
    [job] = queue.reserve("t", retry=retry)
    assert queue.nack(job, "1m", error="asked nobody") is State.DELAYED
    clock.advance(60)
    [job] = queue.reserve("t", retry=retry)
    assert queue.nack(job, error="gone for good") is State.DEAD
    assert queue.get(id).last_error == "gone for good"
    assert seen == [(1, None), (2, "busy"), (4, "gone for good")]


def test_a_job_with_more_attempts_than_its_ladder_goes_on_with_the_last_step(queue, clock):
    queue.handler("t", retry=Ladder("5s", "1h"))(lambda job: 1 / 0)
    usual, id = queue.put("t"), queue.put("t", max_attempts=1_000_000)
    for attempt, delay in ((1, 5), (2, 3_600), (3, 3_600), (4, 3_600)):
        run_due(queue)
        job = queue.get(id)
        assert (job.state, job.attempt, job.due - clock.wall()) == (State.DELAYED, attempt, delay * 1_000)
        clock.advance(delay)
    assert (queue.get(usual).state, queue.get(usual).attempt) == (State.DEAD, 3)


def test_a_buried_job_is_dead_whatever_attempts_are_left(queue):
    id = queue.put("t")
    [job] = queue.reserve("t")
    assert queue.bury(job, error="no use") is True
    assert (queue.get(id).state, queue.get(id).last_error) == (State.DEAD, "no use")
    assert queue.bury(job) is False


def test_both_kinds_of_a_queue_are_one(queue):
    aio = queue.aio
    assert aio.sync.store is queue.store
    assert queue.sync is queue

    @aio.task("t", key=lambda n: str(n))
    def task(n: int) -> None: ...

    assert "t" in queue.handlers
    assert asyncio.run(task.put(1)) == queue.get(("t", "1")).id
    assert task.sync.cancel(1)
    assert asyncio.run(aio.topics.counts())["t"].cancelled == 1
