"""Tasks: functions whose calls are jobs."""

import asyncio
import contextlib
import datetime
import decimal
import enum
import functools
import inspect
import sqlite3
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated

import pytest

from pywheel import BadArguments, BadBody, BadJob, BadOption, Fixed, Job, JobExists, JobQueue, Worker, provided
from pywheel.client.program import TaskOptions
from pywheel.jobs import State
from pywheel.jobs.new_job import JobOptions, PutOptions, new_job
from pywheel.testing import run_due


class Session:
    """What tests provide."""

    name = "main"


class Calls(list):
    """Calls of a function that notes its arguments."""

    def __call__(self, **arguments):
        self.append(arguments)


@pytest.fixture
def calls():
    return Calls()


@pytest.fixture
def close(queue, calls):
    """A task that notes its arguments."""

    @queue.task("t", retry=Fixed("1m", attempts=3))
    def close(order_id: int, note: str = "none") -> None:
        calls(order_id=order_id, note=note)

    return close


def tried(queue, task, *args, **kwargs):
    """Put, handle; return the job then."""
    id = task.put(*args, **kwargs)
    run_due(queue)
    return queue.get(id)


def plant(queue, task, body):
    """Put a body as another version of the program has; handle it, and return the job then."""
    id = queue.put(task.topic, body)
    run_due(queue)
    return queue.get(id)


# ---- put and handle -------------------------------------------------------------------------------------------------


def test_a_plain_call_calls_the_function_and_puts_nothing(queue):
    @queue.task("t")
    def double(n: int) -> int:
        """Return twice n."""
        return 2 * n

    assert double(4) == 8
    assert queue.topics.counts() == {}
    assert (double.__name__, double.__doc__) == ("double", "Return twice n.")
    assert str(inspect.signature(double)) == "(n: int) -> int"
    assert repr(double) == "<Task t>"


def test_the_topic_is_module_and_name_unless_told(queue):
    def f() -> None: ...

    assert queue.task()(f).topic == f"{__name__}.{f.__qualname__}"
    assert queue.task("f")(f).topic == "f"
    with pytest.raises(BadOption, match="has a handler already"):
        queue.task("f")(f)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("7",), {}, "argument 'order_id' of t must be int: Expected `int`, got `str`"),
        ((), {}, "argument 'order_id' of t is missing: int"),
        ((7,), {"order_id": 7}, "argument 'order_id' of t is given twice"),
        ((7, "x", 1), {}, "t takes 2 positional arguments, 3 were given"),
        ((7,), {"orderid": 8}, "t takes no argument 'orderid': it takes order_id, note"),
        ((7,), {"note": object()}, "argument 'note' of t must be str"),
        ((7,), {"delay": "1m"}, r"options stand before them: \.options\(delay=...\)\.put"),
    ],
)
def test_a_put_that_does_not_fit_names_the_argument_and_stores_nothing(queue, close, args, kwargs, message):
    with pytest.raises(BadArguments, match=message):
        close.put(*args, **kwargs)
    with pytest.raises(BadArguments, match=message):
        asyncio.run(close.aio.put(*args, **kwargs))
    with pytest.raises(BadArguments, match=message):
        close.put_many([close.job(1), close.job(*args, **kwargs)])
    assert queue.topics.counts() == {}


# ---- signatures that changed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{}, None, b""])
def test_what_a_body_leaves_out_has_its_default(queue, calls, body):
    @queue.task("t")
    def tick(n: int = 1) -> None:
        calls(n=n)

    assert plant(queue, tick, body).state is State.DONE
    assert calls == [{"n": 1}]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"note": "x"}, "argument 'order_id' of t is missing: int"),
        ({"order_id": "7"}, "argument 'order_id' of t must be int"),
        ({"order_id": 7, "old": 1}, "t takes no argument 'old'"),
        ([7], "the arguments of t do not fit"),
    ],
)
def test_anything_else_is_a_failed_attempt_that_names_the_argument(queue, close, body, message):
    job = plant(queue, close, body)
    assert (job.state, job.attempt) == (State.DELAYED, 1)  # it comes again: the other version may be back by then
    assert message in job.last_error
    assert "BadArguments" in job.last_error


def test_a_body_that_is_no_json_is_dead(queue, close):
    job = plant(queue, close, b"\x00")
    assert job.state is State.DEAD
    with pytest.raises(BadBody):
        close.arguments(job)


# ---- options --------------------------------------------------------------------------------------------------------


def test_the_attempts_of_a_task_hold_for_jobs_that_others_put_to_its_topic_unless_a_job_has_its_own(queue):
    @queue.task("charge", max_attempts=1)
    def charge() -> None:
        raise ValueError("no")

    ids = [queue.put("charge", {}), queue.put("charge", {}, max_attempts=2)]
    run_due(queue)
    assert [queue.get(id).state for id in ids] == [State.DEAD, State.DELAYED]


def test_options_stand_before_the_arguments(queue, clock):
    now = clock.wall()
    at = datetime.datetime.fromtimestamp(now / 1000 + 9, datetime.UTC)
    task = queue.task("t", delay="1m", max_attempts=2)(typed)
    for options, due in (
        ({}, 60_000),
        ({"delay": "5s"}, 5_000),
        ({"at": at}, 9_000),
        ({"delay": None}, 0),
        ({"headers": {"a": "b"}, "ttr": "9s"}, 60_000),
    ):
        job = queue.get(task.options(**options).put(7))
        assert (job.due - now, job.max_attempts) == (due, 2)
    assert (job.headers, job.ttr) == ({"a": "b"}, 9_000)
    assert queue.get(task.options(at=at).options(delay="5s").put(7)).due - now == 5_000

    @queue.task("u")
    def wait(delay: int) -> None: ...

    job = queue.get(wait.options(delay="1m").put(delay=3))  # what has the name of an option is the function's
    assert (job.json(), job.due - now) == ({"delay": 3}, 60_000)


@pytest.mark.parametrize("said", [{}, {"delay": 60}, {"at": datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)}])
@pytest.mark.parametrize("given", [{}, {"delay": 5}, {"delay": None}, {"delay": 5, "ttr": 9}])
def test_a_job_of_a_put_is_that_of_the_queue_s_put_with_the_same_options(queue, said, given):
    fixed = {"priority": 2, "max_attempts": 4, "headers": {"shop": "main"}}

    @queue.task("t", ttr=7, results=True, **fixed)
    def close(order_id: int) -> None: ...

    task = close.options(**said).options(**given)
    wanted = {**fixed, **said, **given}
    if given.get("delay") is not None:
        wanted.pop("at", None)
    first, second = task.job(order_id=7), task.job(7)  # when the second is made, the first has been
    assert first == second == queue.job("t", b'{"order_id":7}', **wanted)
    assert first.headers is not second.headers
    assert close.job(order_id=8) == queue.job("t", b'{"order_id":8}', **fixed)


def test_the_arguments_of_a_task_may_be_no_longer_than_a_body(clock):
    with JobQueue("memory:", clock=clock, max_body=20) as queue:

        @queue.task("t")
        def close(note: str) -> None: ...

        for task in (close, close, close.options(headers={"a": "b"})):  # also once its form of a job is kept
            task.put("short")
            with pytest.raises(BadJob, match="the limit is 20"):
                task.put("x" * 20)


def test_a_wrong_option_is_refused_when_the_task_is_made(queue):
    with pytest.raises(TypeError, match="'at' is not an option of a task"):
        queue.task(at=None)
    with pytest.raises(BadJob, match="delay 'soon' is not understood"):
        queue.task(delay="soon")(lambda: None)
    with pytest.raises(BadOption, match="concurrency"):
        queue.task(concurrency=0)(lambda: None)
    assert queue.handlers == {}


def test_the_types_of_options_say_what_put_and_handler_take():
    of_job = set(JobOptions.__annotations__)
    assert of_job == set(inspect.signature(new_job).parameters) - {"max_body", "topic", "body"}
    assert set(PutOptions.__annotations__) == of_job | {"connection"}
    of_one = {"at", "key", "traceparent"}
    assert set(TaskOptions.__annotations__) == of_job - of_one | set(JobQueue.handler.__kwdefaults__)


def test_the_caller_s_transaction_takes_the_put_in(tmp_path):
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue:
        close = queue.task("t")(typed)
        connection = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        within = close.options(connection=connection)
        within.put(7)
        within.put_many([close.job(8), close.job(9)])
        asyncio.run(within.aio.put_many([close.job(10)]))
        with pytest.raises(BadJob, match="connection= is for what stores jobs"):
            within.job(7)
        assert connection.execute("SELECT count(*) FROM job").fetchone() == (4,)
        connection.rollback()
        connection.close()
        assert queue.topics.counts() == {}


# ---- many -----------------------------------------------------------------------------------------------------------


def test_many_are_put_at_once(queue, calls, close):
    ids = close.put_many([close.job(1), close.job(2, "b"), close.job(order_id=3), close.job(4, note="d")])
    assert len(set(ids)) == 4
    assert asyncio.run(close.aio.put_many([close.job(5)]))
    run_due(queue)
    assert [call["order_id"] for call in calls] == [1, 2, 3, 4, 5]
    with pytest.raises(BadJob, match=r"put_many takes what .* a task's job\(...\), returns, not \(7,\)"):
        close.put_many([(7,)])
    with pytest.raises(BadJob, match=r"put_many takes what .* returns, many of them, not int"):
        close.put_many(7)


# ---- keys -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def keyed(queue):
    @queue.task("t", key=lambda order_id, shop: f"{shop}-{order_id}", delay="30m")
    def close(order_id: int, note: str = "none", *, shop: str = "main") -> None: ...

    return close


def test_the_key_is_made_of_the_arguments_and_their_defaults(queue, keyed):
    assert queue.get(keyed.put(7, "x")).key == keyed.key(7) == keyed.key(order_id=7, shop="main") == "main-7"
    assert queue.get(keyed.put(7, shop="other")).key == "other-7"
    with pytest.raises(JobExists):
        keyed.put(7, "y")
    assert queue.get(keyed.options(key="mine").put(7)).key == "mine"


def test_a_job_is_cancelled_and_rescheduled_by_the_arguments_of_its_key(queue, clock, keyed):
    now, id = clock.wall(), keyed.put(7)
    assert keyed.options(delay="1h").reschedule(order_id=7, shop="main")
    assert queue.get(id).due - now == 3_600_000
    assert asyncio.run(keyed.aio.reschedule(order_id=7, shop="main"))  # the task's own delay, from now
    assert queue.get(id).due - now == 1_800_000
    assert keyed.cancel(7, "ignored", shop="main")
    assert not asyncio.run(keyed.aio.cancel(7, shop="main"))
    assert queue.get(id).state is State.CANCELLED


def test_one_key_for_all_jobs_of_a_task(queue):
    @queue.task("t", key="only", replace=True, delay="1m")
    def rebuild(n: int) -> None: ...

    assert rebuild.put(1) == rebuild.put(2)
    assert rebuild.cancel()


@dataclass
class Shop:
    name: str
    open: bool = True


class Colour(enum.Enum):
    RED = "red"


SAME = [
    (float, 7, 7.0),
    (uuid.UUID, "00000000-0000-0000-0000-00000000000A", uuid.UUID(int=10)),
    (datetime.datetime, "2026-01-01T00:00:00Z", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
    (Colour, "red", Colour.RED),
    (decimal.Decimal, "9.90", decimal.Decimal("9.90")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (Shop, {"name": "main"}, Shop("main")),
    (bytes, "AQI=", b"\1\2"),
]


@pytest.mark.parametrize(("kind", "written", "value"), SAME, ids=lambda it: getattr(it, "__name__", ""))
def test_a_key_is_made_of_what_the_function_gets_and_not_of_how_it_was_given(queue, kind, written, value):
    def handle(it) -> None: ...

    handle.__annotations__ = {"it": kind, "return": None}
    task = queue.task("t", key=lambda it: f"{type(it).__name__}-{it}", delay="1h")(handle)
    wanted = f"{type(value).__name__}-{value}"
    for given in (written, value):
        assert task.key(given) == task.key(it=given) == task.job(given).key == wanted
        id = task.put(given)
        assert queue.get(id).key == wanted
        assert task.options(delay="2h").reschedule(given)
        assert task.cancel(given)
        assert queue.get(id).state is State.CANCELLED


def test_what_a_key_leaves_out_has_the_default_of_the_task(queue):
    task = queue.task("u", key=lambda n, shop="of the key": f"{shop}-{n}", delay="1h")(of_the_task)
    assert queue.get(task.put(7)).key == task.key(7) == "of the task-7"
    assert task.key(7, "mine") == "mine-7"
    assert task.reschedule(7)
    assert task.cancel(7)


def of_the_task(n: int, shop: str = "of the task") -> None: ...


def test_a_key_of_what_no_put_takes_is_refused(queue, keyed):
    task = queue.task("u", key=lambda n, prefix="x": f"{prefix}-{n}")(typed)
    assert queue.get(task.put(7)).key == task.key(7) == "x-7"
    assert not keyed.cancel(7, note="has no part in it")
    for call, message in (
        (lambda: keyed.cancel("7"), "argument 'order_id' of t must be int"),
        (lambda: task.key(7, prefix="y"), "'prefix' is not an argument of the task"),
        (lambda: keyed.cancel(shop="main"), "the key of t is made of order_id, shop: missing"),
        (lambda: keyed.cancel(7, nots="x"), "the key of t is made of order_id, shop: 'nots' is not an argument"),
    ):
        with pytest.raises(BadArguments, match=message):
            call()
    with pytest.raises(BadJob, match="have no keys"):
        queue.task("v")(lambda: None).cancel()
    of_the_job = queue.task("w", key=lambda job: "")(of_the_job_)
    with pytest.raises(BadJob, match="the key of w is made of 'job', which is not put"):
        of_the_job.put()


@pytest.mark.parametrize(
    ("made", "message"),
    [(None, "must be a str, not NoneType"), (7, "must be a str, not int"), ("", "must have 1 to ")],
)
def test_a_key_function_that_makes_no_key_is_refused_and_nothing_is_put(queue, made, message):
    task = queue.task("t", key=lambda n: made)(typed)
    for call in (task.put, task.job, task.key, task.cancel, task.options(headers={"a": "b"}).put):
        with pytest.raises(BadJob, match=f"a key of t {message}"):
            call(7)
    assert queue.jobs.list() == []


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (lambda n, /: f"{n}", BadOption, "by name, and 'n' stands before a /"),
        (lambda other: "", BadOption, "the key of t is made of 'other', which is not an argument"),
        (7, TypeError, "key must be a str, or a function"),
    ],
)
def test_keys_that_make_no_sense_are_refused(queue, key, error, message):
    with pytest.raises(error, match=message):
        queue.task("t", key=key)(typed)


def of_the_job_(job: Job) -> None: ...


# ---- functions that cannot be tasks ---------------------------------------------------------------------------------


def test_functions_that_cannot_be_tasks_are_refused(queue):
    def many(*orders: int) -> None: ...
    def placed(order: int, /) -> None: ...
    def mangled(order: int, *, __shop: int) -> None: ...
    def generator() -> Iterator[int]:
        yield 1

    async def agenerator() -> AsyncIterator[int]:
        yield 1

    for function, error, message in (
        (many, BadOption, r"'\*orders: int' of t has none"),
        (placed, BadOption, "'order: int' of t has none"),
        (generator, TypeError, "must not be a generator"),
        (agenerator, TypeError, "must not be a generator"),
        (7, TypeError, "a task is made of a function, not of 7"),
        (dict, BadOption, "t cannot be a task: its arguments are unknown"),
    ):
        with pytest.raises(error, match=message):
            queue.task("t")(function)
    with pytest.raises(TypeError, match="with parentheses"):
        queue.task(generator)
    with pytest.raises(BadOption, match="a lambda or a local function"):
        queue.task("t", isolate=True)(lambda: None)
    with pytest.raises(BadOption, match="has no name: give its task a topic"):
        queue.task()(functools.partial(typed, n=1))
    assert queue.handlers == {}
    with pytest.raises(BadArguments, match="t cannot have such parameters"):
        queue.task("t")(mangled).put(7, __shop=1)


@pytest.mark.parametrize("decorated", [lambda task: task, classmethod], ids=["method", "classmethod"])
def test_a_method_is_refused_for_it_would_have_no_self(queue, decorated):
    with pytest.raises((BadOption, TypeError), match=r"is a method, and its jobs would have no self|not of <classm"):

        class Shop:
            @queue.task("t")
            @decorated
            def close(self, order: int) -> None: ...


def test_a_static_or_bound_method_and_a_function_of_a_self_are_tasks(queue):
    class Shop:
        @staticmethod
        @queue.task("t")
        def close(order: int) -> None: ...

        def bound(self, order: int) -> None: ...

    def function(self, order: int) -> None: ...

    assert tried(queue, Shop.close, 7).state is State.DONE
    assert tried(queue, queue.task("u")(Shop().bound), 7).state is State.DONE
    assert tried(queue, queue.task("v")(function), 7, 8).state is State.DONE


class Pair(enum.Enum):
    ONE = (1, 2)


def unreadable(it: Pair) -> None: ...
def unfound(it: "Nowhere") -> None: ...  # noqa: F821
def unprovided(session: Session = provided) -> None: ...


@pytest.mark.parametrize("function", [unreadable, unfound, unprovided])
def test_a_worker_with_a_task_that_would_fail_each_job_does_not_start(queue, function):
    queue.task("good")(typed)
    queue.task("t")(function)
    error = BadArguments if function is unreadable else BadOption
    with pytest.raises(error, match=r"t cannot have such|'it' of t cannot be found|nothing provides 'session' of t"):
        Worker(queue)
    Worker(queue, topics=["good"])


class Closer:
    """A callable object, whose class has annotations as well."""

    order: str

    def __init__(self, calls):
        self.calls = calls

    def __call__(self, order: uuid.UUID, its: Job, shop: str = "main"):
        self.calls(order=order, shop=shop, job=its)


@pytest.mark.parametrize("wrap", [lambda closer: closer, functools.partial], ids=["object", "partial"])
def test_partials_and_callable_objects_have_the_types_of_what_they_call(queue, calls, wrap):
    task = queue.task("t")(wrap(Closer(calls)))
    order = uuid.uuid4()
    id = tried(queue, task, order=order).id
    assert [(call["order"], call["job"].id) for call in calls] == [(order, id)]
    with pytest.raises(BadArguments, match="argument 'order' of t must be UUID"):
        task.put(order="seven")


def test_what_a_plain_call_may_leave_out_is_given_all_the_same(queue, calls):
    @queue.provide
    def session() -> Iterator[Session]:
        yield Session()

    @queue.task("t")
    def close(order: int, its: Job | None = None, db: Annotated[Session, "a note"] | None = None) -> None:
        calls(job=its, db=db)

    close(7)
    job = tried(queue, close, 7)
    assert calls[0] == {"job": None, "db": None}
    assert calls[1]["job"].id == job.id
    assert isinstance(calls[1]["db"], Session)


def test_a_type_that_is_not_needed_may_lead_nowhere(queue, calls):
    @queue.provide
    def session() -> "Iterator[Missing]":  # noqa: F821
        yield 1

    @queue.task("t")
    def close(job: "Missing", order_id: int, session: "Missing") -> "Missing":  # noqa: F821
        calls(job=type(job), order_id=order_id, session=session)

    assert tried(queue, close, 7).state is State.DONE
    assert calls == [{"job": Job, "order_id": 7, "session": 1}]


def typed(n: int) -> None: ...


# ---- what is provided -----------------------------------------------------------------------------------------------


def test_what_is_provided_is_given_by_its_type_or_its_name_and_closed_after_each_job(queue):
    seen = []

    @queue.provide
    def session() -> Iterator[Session]:
        seen.append("opened")
        try:
            yield Session()
        except ValueError:
            seen.append("rolled back")
            raise

    @queue.task("t")
    def by_type(n: int, one: Session = provided) -> None:
        seen.append(type(one))
        raise ValueError

    @queue.task("u")
    async def by_name(n: int, session) -> None:
        by_type(n, session)

    for task in (by_type, by_name):
        assert tried(queue, task, 7).state is State.DELAYED
    assert seen == ["opened", Session, "rolled back"] * 2


def test_an_async_provider_is_opened_and_closed_on_the_loop(queue):
    seen = []

    @queue.provide
    async def session(job: Job) -> AsyncIterator[Session]:
        seen.append(job.topic)
        yield Session()
        seen.append("closed")

    @queue.task("t")
    async def close(one: Session = provided) -> None:
        seen.append(type(one))

    assert tried(queue, close).state is State.DONE
    assert seen == ["t", Session, "closed"]
    plain = queue.task("u")(of_the_session)
    assert "u must be async: what provides its 'session' is" in tried(queue, plain).last_error


def test_a_provider_that_swallows_an_error_changes_nothing(queue):
    outer = []

    @queue.provide
    def one() -> Iterator[int]:
        try:
            yield 1
        except ValueError as error:
            outer.append(error)
            raise

    @queue.provide
    def two() -> Iterator[int]:
        with contextlib.suppress(ValueError):
            yield 2

    @queue.task("t")
    def fail(one: int, two: int) -> None:
        raise ValueError("broken")

    @queue.task("u")
    async def afail(one: int, two: int) -> None:
        fail(one, two)

    for task in (fail, afail):
        assert tried(queue, task).last_error == "ValueError: broken"
    assert len(outer) == 2  # what was opened before has seen it as well


def test_what_is_provided_is_closed_at_the_end_and_an_error_there_is_a_failed_attempt(queue):
    seen = []

    @queue.provide
    def session() -> Iterator[Session]:
        yield Session()
        seen.append("closed")
        raise RuntimeError("the commit failed")

    async def later():
        await asyncio.sleep(0)
        seen.append("done")

    @queue.task("t")
    def close(session: Session):
        return later()

    assert tried(queue, close).last_error == "RuntimeError: the commit failed"
    assert seen == ["done", "closed"]


def test_a_provider_may_come_after_its_task_and_need_not_be_where_jobs_are_put(queue):
    @queue.task("t")
    def close(order_id: int, session: Session = provided) -> None:
        assert session.name == "main"

    job = tried(queue, close, 7)
    assert "nothing provides 'session' of t: use @queue.provide" in job.last_error
    with pytest.raises(AttributeError, match="nothing was provided"):
        close(7)
    with pytest.raises(BadArguments, match="'session' of t comes from the queue"):
        close.put(7, session=Session())

    @queue.provide
    def session() -> Iterator[Session]:
        yield Session()

    assert tried(queue, close, 7).state is State.DONE


def test_what_cannot_be_provided_is_refused(queue):
    def one() -> Iterator[Session]:
        yield Session()

    def two() -> Iterator[Session]:
        yield Session()

    def three(a, b) -> Iterator[Session]:
        yield Session()

    queue.provide(one)
    queue.provide(two)
    with pytest.raises(BadOption, match="one and two both provide a Session"):
        queue.task("t")(of_the_session).put()
    for wrong, error, message in (
        (lambda: 1, TypeError, "generator function"),
        (one, BadOption, "provided as 'one'"),
        (three, BadOption, "more parameters"),
    ):
        with pytest.raises(error, match=message):
            queue.provide(wrong)


def of_the_session(session: Session) -> None: ...
