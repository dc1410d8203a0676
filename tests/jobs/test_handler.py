"""Handlers: their allowed forms, their results, and how their end settles the job."""

import asyncio
import functools
import inspect
import pickle
from datetime import timedelta

import pytest

from pywheel import BadBody, BadOption, Fixed, GiveUp, Ladder, NotNow, RetryLater
from pywheel.jobs import DEFAULT, Job, RetryPolicy, State
from pywheel.jobs.commands import Ack, Edit, Nack, Release
from pywheel.jobs.handler import Handler, ending, is_async, moved, rest_of
from pywheel.jobs.retry import policy_of

JOB = Job(id=7, topic="t", body=b"", due=0, created=0, state=State.RUNNING, claims=3, attempt=2)


def handler(function=print, retry=DEFAULT, **changes):
    return Handler("t", function, **{"concurrency": 1, "ttr": 1_000, "retry": retry, "keep_lease": False, **changes})


async def coroutine(job):
    pass


def generator(job):
    yield job


async def async_generator(job):
    yield job


def called(function):
    """Return an object that can be called, and does what the function does."""
    return type("Called", (), {"__call__": staticmethod(function)})()


WRAPS = {
    "itself": lambda function: function,
    "partial": functools.partial,
    "object": called,
    "both": lambda function: functools.partial(called(function)),
}
HIDDEN = {
    "lambda": lambda job: coroutine(job),
    "wrapper": functools.wraps(print)(lambda job: coroutine(job)),
}


# ---- functions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generator", [generator, async_generator])
@pytest.mark.parametrize("wrap", WRAPS)
def test_a_generator_function_is_refused_where_it_can_be_seen(generator, wrap):
    with pytest.raises(TypeError, match="generator"):
        handler(WRAPS[wrap](generator))


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_coroutine_function_is_known_through_partials_and_objects(wrap):
    assert is_async(WRAPS[wrap](coroutine))
    assert not is_async(WRAPS[wrap](print))


@pytest.mark.parametrize("hidden", HIDDEN)
def test_what_a_hidden_coroutine_function_returns_is_left_to_await_and_no_plain_result(hidden):
    rest = rest_of(handler(HIDDEN[hidden]).function(JOB))
    assert inspect.isawaitable(rest)
    rest.close()
    assert [rest_of(result) for result in (None, 0, [], "text")] == [None] * 4


@pytest.mark.parametrize("generator", [generator, async_generator])
def test_a_generator_that_came_back_is_an_error_that_says_so(generator):
    with pytest.raises(TypeError, match=r"generator.*nothing of it was run"):
        rest_of((lambda job: generator(job))(JOB))


def test_a_future_is_left_to_await():
    async def program():
        future = asyncio.get_running_loop().create_future()
        assert rest_of(future) is future

    asyncio.run(program())


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        *(({option: wrong}, BadOption) for option, wrong in (("concurrency", 0), ("concurrency", True), ("ttr", 0))),
        *(({option: wrong}, TypeError) for option, wrong in (("function", 5), ("retry", 5), ("retry", Ladder))),
    ],
)
def test_a_handler_that_makes_no_sense_is_refused(changes, error):
    with pytest.raises(error):
        handler(**changes)


# ---- endings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (None, Ack(7, 3)),
        (ValueError("no"), Nack(7, 3, 9_000, "ValueError: no")),
        (GiveUp("no"), Nack(7, 3, None, "pywheel.jobs.handler.GiveUp: no")),
        (BadBody("no"), Nack(7, 3, None, "pywheel.BadBody: no")),
        (RetryLater("7s", "no"), Nack(7, 3, 7_000, "pywheel.jobs.handler.RetryLater: no")),
        (RetryLater(-5, "no"), Nack(7, 3, 0, "pywheel.jobs.handler.RetryLater: no")),
        (RetryLater("1s", "no", least=True), Nack(7, 3, 9_000, "pywheel.jobs.handler.RetryLater: no")),
        (RetryLater("11s", "no", least=True), Nack(7, 3, 11_000, "pywheel.jobs.handler.RetryLater: no")),
        (NotNow("7s", "no"), Release(7, 3)),
    ],
    ids=repr,
)
def test_an_end_is_settled_as_the_policy_and_the_error_say(error, command):
    assert ending(handler(retry=Ladder("5s", "9s")), JOB, pickle.loads(pickle.dumps(error))) == command


def test_what_was_not_for_now_alone_is_moved_and_not_round_and_round():
    error = pickle.loads(pickle.dumps(NotNow("7s", "no room")))
    assert moved(JOB, error) == Edit(7, delay=7_000, expect=(0, 3))
    assert moved(JOB, NotNow(0)).delay >= 10
    assert [moved(JOB, tried) for tried in (None, ValueError("no"), GiveUp("no"), RetryLater("1s"))] == [None] * 4


def test_an_error_is_kept_in_characters_that_every_store_has():
    text = ending(handler(), JOB, ValueError("\ud800\0" + "x" * 10_000)).error
    assert len(text) == 4_000
    text = ending(handler(), JOB, ValueError("\ud800\0")).error
    assert text == "ValueError: ?\\0"


def answered(answer):
    if isinstance(answer, BaseException):
        raise answer
    return answer


class Policy(RetryPolicy):
    """A policy of somebody's own."""

    max_attempts = 5
    delays = (10, 20, 20)

    def __init__(self, answer):
        self.answer = answer

    def delay(self, attempt):
        return answered(self.answer)


def test_a_policy_of_ones_own_is_asked_and_needs_no_constructor():
    class Nightly(RetryPolicy):
        max_attempts = 30
        delays = (86_400_000,)

        def delay(self, attempt):
            return 86_400_000

    own = handler(retry=Nightly())
    assert ending(own, JOB, ValueError("no")).delay == 86_400_000
    assert (own.policy.max_attempts, own.policy.backoff) == (30, (86_400_000,))
    own = handler(retry=Policy(1_234)).policy
    assert (own.max_attempts, own.backoff) == (5, (10, 20))


@pytest.mark.parametrize(
    ("answer", "delay"),
    [("30s", 30_000), (1.5, 1_500), (0, 0), (timedelta(minutes=2), 120_000), (None, None)],
    ids=str,
)
def test_a_retry_function_sees_the_job_and_the_error_and_says_how_long_to_wait_or_that_it_is_dead(answer, delay):
    seen = []
    own = handler(retry=policy_of(lambda job, error: seen.append((job, error)) or answer))
    error = ValueError("no")
    assert ending(own, JOB, error) == Nack(7, 3, delay, "ValueError: no")
    assert seen == [(JOB, error)]
    defaults = own.policy.max_attempts, own.policy.backoff, own.policy.jitter  # also what follows a lost lease
    assert defaults == (10, DEFAULT.delays, DEFAULT.jitter)


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


RAISED = [ZeroDivisionError("by zero"), Unspeakable(), SystemExit(3), KeyboardInterrupt(), GiveUp("no")]
NONSENSE = {
    "Policy ": [1.5, "5s", -1, None, True, 2**63, float("nan"), RAISED[0]],
    "": ["soon", -1, True, b"5s", "1000000d", (Unspeakable(),), *RAISED],
}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        pytest.param(name, answer, id=f"{name or 'function '}{number} {type(answer).__name__}")
        for name, answers in NONSENSE.items()
        for number, answer in enumerate(answers)
    ],
)
def test_a_policy_or_function_that_raises_or_answers_nonsense_is_logged_named_and_the_default_holds(
    name, answer, caplog
):
    retry = Policy(answer) if name else policy_of(lambda job, error: answered(answer))
    settled = ending(handler(retry=retry), JOB, ValueError("no"))
    assert settled.error.startswith(f"ValueError: no (the retry policy {name}")
    assert 0.9 * DEFAULT.delays[1] <= settled.delay <= 1.1 * DEFAULT.delays[1]
    [record] = caplog.records
    assert "waits as by default: the retry policy " in record.getMessage()


def test_a_retry_function_is_asked_as_a_policy_is():
    def never(job, error):
        raise AssertionError("it was asked")

    own = handler(retry=policy_of(never))
    assert ending(own, JOB, GiveUp("x")).delay is None
    assert ending(own, JOB, RetryLater("7s")).delay == 7_000
    assert type(ending(own, JOB, NotNow("1s"))) is Release
    later = handler(retry=policy_of(lambda job, error: "9s"))
    assert ending(later, JOB, RetryLater("7s", least=True)).delay == 9_000
    assert ending(later, JOB, RetryLater("11s", least=True)).delay == 11_000
    dead = handler(retry=policy_of(lambda job, error: None))
    assert ending(dead, JOB, RetryLater("7s", least=True)).delay is None


async def _coroutine(job, error): ...


def _generator(job, error):
    yield 1


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        *((one, "takes a function of job and error") for one in (lambda job: 1, lambda: 1, lambda a, b, c: 1)),
        *((one, "takes a plain function") for one in (_coroutine, _generator)),
        *((one, "must be a RetryPolicy, such as") for one in (Ladder, "5s", None)),
    ],
    ids="one none three coroutine generator class text nothing".split(),
)
def test_what_cannot_say_when_to_retry_is_refused(wrong, why):
    with pytest.raises(TypeError, match=f"retry {why}"):
        policy_of(wrong)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("max_attempts", most) for most in (0, 1.5, None, "3", True)),
        *(("delays", delays) for delays in (None, (), 5, "5s", (1.5,), (-1,), ("5s",), (2**63,))),
    ],
    ids=repr,
)
def test_a_policy_that_does_not_say_how_often_and_what_counts_after_a_lost_lease_is_refused(name, wrong):
    policy = Policy(0)
    setattr(policy, name, wrong)
    with pytest.raises(BadOption, match=rf"{name[:-1]}.* Policy|Policy must have {name}"):
        handler(retry=policy)


def test_terms_are_those_of_the_policy_and_one_attempt_needs_no_delays():
    policy = handler(retry=Fixed("2s", attempts=3, jitter=0.5)).policy
    assert (policy.ttr, policy.max_attempts, policy.backoff, policy.jitter) == (1_000, 3, (2_000,), 0.5)
    once = Policy(0)
    once.max_attempts, once.delays = 1, ()
    assert handler(retry=once).policy.backoff == handler(retry=Ladder()).policy.backoff == ()
