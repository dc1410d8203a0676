"""When and how often a failed job is tried again."""

from __future__ import annotations

import inspect
import logging
import random
import reprlib
import traceback
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from .._errors import BadOption
from .checks import callable_with, number, whole
from .durations import LONGEST, Duration, duration
from .job import Job
from .lifecycle import backoff

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_MOST: Final = 10_000  # attempts


class RetryPolicy:
    """The delays after the first, second, ... failed attempt; after the last of them the job is dead.

    `jitter` is the random part of a delay: 0.1 makes it 90 to 110 % of the written one. BadOption if it is not from 0
    to 1.

    A subclass of your own has `max_attempts`, `delay(attempt)`, in whole ms, and `delays`. `delays` apply after a
    lost lease, when no process may be there to call `delay`. If `delay` raises, or returns something else, that is
    written into the job's error, and the delay is DEFAULT's.
    """

    delays: tuple[int, ...] = ()
    """The delays in ms, one for each retry."""

    def __init__(self, delays: tuple[int, ...] | None = None, jitter: float = 0.0) -> None:
        if delays is not None:  # otherwise a subclass has its own
            self.delays = delays
        self.jitter = number(jitter, "jitter", 0, 1, error=BadOption)

    @property
    def max_attempts(self) -> int:
        """How often a job is tried in all."""
        return len(self.delays) + 1

    def delay(self, attempt: int) -> int:
        """Return the ms to wait after this failed attempt, counted from 1; beyond the last delay, the last one."""
        return min(backoff(self.delays, attempt, self.jitter, 2 * random.random() - 1), LONGEST)

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.delays)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.max_attempts} attempts>"


class Ladder(RetryPolicy):
    """The delays as given: ``Ladder("5s", "30s", "1m")`` tries four times."""

    def __init__(self, *delays: Duration, jitter: float = 0.0) -> None:
        super().__init__(tuple(duration(delay, "a step of the ladder", error=BadOption) for delay in delays), jitter)


class Fixed(RetryPolicy):
    """The same delay each time, `attempts` tries in all."""

    def __init__(self, delay: Duration, *, attempts: int = 10, jitter: float = 0.0) -> None:
        retries = whole(attempts, "attempts", _MOST, error=BadOption) - 1
        super().__init__((duration(delay, "delay", error=BadOption),) * retries, jitter)


class Exponential(RetryPolicy):
    """`first`, then `factor` times the previous delay, up to `longest`; `attempts` tries in all."""

    def __init__(
        self,
        first: Duration = 1.0,
        *,
        factor: float = 2.0,
        longest: Duration = "1h",
        attempts: int = 10,
        jitter: float = 0.1,
    ) -> None:
        factor = number(factor, "factor", 1, 1000, error=BadOption)
        limit, delays = duration(longest, "longest", error=BadOption), []
        delay = float(duration(first, "first", error=BadOption))
        for _ in range(whole(attempts, "attempts", _MOST, error=BadOption) - 1):
            delays.append(round(min(delay, limit)))
            delay = min(delay * factor, limit)  # never beyond the limit: no overflow at any attempt
        super().__init__(tuple(delays), jitter)


DEFAULT: Final = Ladder("5s", "30s", "1m", "10m", "30m", "1h", "6h", "1d", "2d", jitter=0.1)


RetryDelay: TypeAlias = Callable[[Job, BaseException | None], Duration | None]
"""Called with a job whose attempt has failed, and the error: returns the delay, or None for no further attempt."""
AnyRetry: TypeAlias = RetryPolicy | RetryDelay
"""When a failed job is tried again: a policy, or a function that sees the job and the error."""


class RetryFunction(RetryPolicy):
    """A program's function as a policy. DEFAULT decides after lost leases, and if the function's answer is wrong."""

    def __init__(self, function: RetryDelay) -> None:
        super().__init__(DEFAULT.delays, DEFAULT.jitter)
        name = getattr(function, "__qualname__", type(function).__name__)
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(f"retry takes a plain function, and {name:.80} would have to be awaited, or run")
        callable_with(function, 2, "retry takes a function of job and error")
        self.function = function
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"


def policy_of(retry: AnyRetry) -> RetryPolicy:
    """Return a policy; a function is wrapped in one. Errors as for `checked`."""
    if callable(retry) and not isinstance(retry, type) and not hasattr(retry, "delay"):
        return RetryFunction(retry)
    return checked(retry)


def checked(policy: Any) -> RetryPolicy:
    """Return a policy. A class of the program's own must fulfil what RetryPolicy describes.

    TypeError if it is not a policy, BadOption if its values make no sense.
    """
    if isinstance(policy, type) or not callable(getattr(policy, "delay", None)):
        raise TypeError(f"retry must be a RetryPolicy, such as Ladder('5s', '1m'), or a function, not {policy!r:.60}")
    name = type(policy).__name__
    most = whole(getattr(policy, "max_attempts", None), f"max_attempts of {name}", _MOST, error=BadOption)
    delays = getattr(policy, "delays", None)
    if not isinstance(delays, tuple | list) or (most > 1 and not delays):
        raise BadOption(
            f"{name} must have delays, a tuple of ms: they count after a lost lease, when nobody calls delay()"
        )
    for delay in delays:
        whole(delay, f"a delay of {name}", LONGEST, 0, error=BadOption)
    return policy  # type: ignore[no-any-return]


def after_losses(policy: RetryPolicy) -> tuple[tuple[int, ...], float]:
    """Return the delays after lost leases, of which the last one repeats, and their jitter."""
    delays = tuple(policy.delays)
    needed = len(delays)
    while needed > 1 and delays[needed - 1] == delays[needed - 2]:
        needed -= 1
    return delays[:needed], getattr(policy, "jitter", 0.0)


def asked(policy: RetryPolicy, job: Job, error: BaseException | None) -> tuple[int | None, str | None]:
    """Return a policy's delay after this attempt, in ms, and an error text if its answer was wrong.

    A delay of None means no further attempt. After a wrong answer, which is logged, the delay is DEFAULT's.
    """
    name = policy.name if isinstance(policy, RetryFunction) else type(policy).__name__
    try:
        answer: Any = policy.function(job, error) if isinstance(policy, RetryFunction) else policy.delay(job.attempt)
    except BaseException as raised:  # noqa: BLE001  (somebody else's code; the attempt failed anyhow)
        wrong = f"raised {''.join(traceback.format_exception_only(raised)).strip()}"
    else:
        try:
            return _delay(policy, answer), None
        except BadOption as nonsense:
            wrong = str(nonsense)
    wrong = f"the retry policy {name} {wrong}"
    _LOGGER.error("job %d of %r waits as by default: %s", job.id, job.topic[:80], wrong)
    return DEFAULT.delay(job.attempt), wrong


def _delay(policy: RetryPolicy, answer: Any) -> int | None:
    """Return a policy's answer in ms. BadOption if it makes no sense."""
    if isinstance(policy, RetryFunction):
        try:
            return None if answer is None else duration(answer, "it", error=BadOption)
        except BadOption:
            raise BadOption(f"gave {reprlib.repr(answer):.60}, no duration such as '30s', and not None") from None
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer <= LONGEST:
        return answer
    raise BadOption(f"gave {reprlib.repr(answer):.60}, not whole ms from 0 to {LONGEST}")
