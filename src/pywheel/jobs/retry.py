"""When a failed job is tried again, and how often."""

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

__all__ = [
    "DEFAULT",
    "AnyRetry",
    "Exponential",
    "Fixed",
    "Ladder",
    "RetryDelay",
    "RetryFunction",
    "RetryPolicy",
    "after_losses",
    "asked",
    "checked",
    "policy_of",
]

_LOGGER: Final = logging.getLogger("pywheel.jobs")
_MOST: Final = 10_000  # attempts


class RetryPolicy:
    """The delays after the first, second, ... failed attempt; after the last of them the job is dead.

    `jitter` is the part of a delay that is drawn by lot: 0.1 makes it 90 to 110 % of what is written.
    BadOption if it is not from 0 to 1.

    A class of your own has `max_attempts`, `delay(attempt)`, in whole ms, and `delays`, which count after a lost lease:
    then nobody may be there to call `delay`. What `delay` raises, or returns instead, is written into the job's error,
    and the delay is DEFAULT's.
    """

    delays: tuple[int, ...] = ()
    """In ms, one for each retry."""

    def __init__(self, delays: tuple[int, ...] | None = None, jitter: float = 0.0) -> None:
        if delays is not None:  # else a class of your own has them
            self.delays = delays
        self.jitter = number(jitter, "jitter", 0, 1, error=BadOption)

    @property
    def max_attempts(self) -> int:
        """How often a job is tried in all."""
        return len(self.delays) + 1

    def delay(self, attempt: int, draw: Callable[[], float] = random.random) -> int:
        """Return the ms to wait after this attempt, counted from 1, has failed; beyond the last, as after the last."""
        if not self.delays:
            return 0
        base = self.delays[min(max(attempt, 1), len(self.delays)) - 1]
        spread = self.jitter * (2 * draw() - 1)
        return min(max(round(base * (1 + spread)), 0), LONGEST)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.max_attempts} attempts>"


class Ladder(RetryPolicy):
    """Each delay as written: ``Ladder("5s", "30s", "1m")`` tries four times."""

    def __init__(self, *delays: Duration, jitter: float = 0.0) -> None:
        super().__init__(tuple(duration(delay, "a step of the ladder", error=BadOption) for delay in delays), jitter)


class Fixed(RetryPolicy):
    """The same delay each time, `attempts` tries in all."""

    def __init__(self, delay: Duration, *, attempts: int = 10, jitter: float = 0.0) -> None:
        retries = whole(attempts, "attempts", _MOST, error=BadOption) - 1
        super().__init__((duration(delay, "delay", error=BadOption),) * retries, jitter)


class Exponential(RetryPolicy):
    """`first`, then `factor` times the one before, up to `longest`; `attempts` tries in all."""

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
            delay = min(delay * factor, limit)  # never grows beyond it: no overflow at any attempt
        super().__init__(tuple(delays), jitter)


DEFAULT: Final = Ladder("5s", "30s", "1m", "10m", "30m", "1h", "6h", "1d", "2d", jitter=0.1)


RetryDelay: TypeAlias = Callable[[Job, BaseException | None], Duration | None]
"""Called with a job whose attempt has failed, and the error: returns how long to wait, or None for no more attempt."""
AnyRetry: TypeAlias = RetryPolicy | RetryDelay
"""When a failed job is tried again: a policy, or a function that sees the job and the error."""


class RetryFunction(RetryPolicy):
    """What a function of a program says of each failed attempt. Else, and after lost leases, DEFAULT holds."""

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
    """Return a policy: that of a function, if it is one. Errors as of `checked`."""
    if callable(retry) and not isinstance(retry, type) and not hasattr(retry, "delay"):
        return RetryFunction(retry)
    return checked(retry)


def checked(policy: Any) -> RetryPolicy:
    """Return a policy. It may be of a class of somebody's own, that says what RetryPolicy does.

    TypeError if it is none, BadOption if what it says makes no sense.
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
    """Return the delays after lost leases, of which the last counts for all that follow, and their jitter."""
    delays = tuple(policy.delays)
    needed = len(delays)
    while needed > 1 and delays[needed - 1] == delays[needed - 2]:
        needed -= 1
    return delays[:needed], getattr(policy, "jitter", 0.0)


def asked(policy: RetryPolicy, job: Job, error: BaseException | None) -> tuple[int | None, str | None]:
    """Return what a policy says to wait after this attempt, in ms, and what was wrong with its answer, if anything.

    None: no more attempt. Where its answer is wrong, which is logged, the delay is DEFAULT's.
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
    """Return what a policy has answered, in ms. BadOption if it makes no sense."""
    if isinstance(policy, RetryFunction):
        try:
            return None if answer is None else duration(answer, "it", error=BadOption)
        except BadOption:
            raise BadOption(f"gave {reprlib.repr(answer):.60}, no duration such as '30s', and not None") from None
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer <= LONGEST:
        return answer
    raise BadOption(f"gave {reprlib.repr(answer):.60}, not whole ms from 0 to {LONGEST}")
