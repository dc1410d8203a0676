"""When a failed job is tried again, and how often."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from .._errors import BadJob
from .checks import number, whole
from .durations import LONGEST, Duration, duration

__all__ = ["DEFAULT", "Exponential", "Fixed", "Ladder", "RetryPolicy", "after_losses", "asked", "checked"]

_MOST: Final = 10_000  # attempts


class RetryPolicy:
    """The delays after the first, second, ... failed attempt; after the last of them the job is dead.

    `jitter` is the part of a delay that is drawn by lot: 0.1 makes it 90 to 110 % of what is written.
    BadJob if it is not from 0 to 1.

    A class of your own has `max_attempts`, `delay(attempt)`, in whole ms, and `delays`, which count after a lost lease:
    then nobody may be there to call `delay`. What `delay` raises, or returns instead, is written into the job's error,
    and the delay is DEFAULT's.
    """

    delays: tuple[int, ...] = ()
    """In ms, one for each retry."""

    def __init__(self, delays: tuple[int, ...] | None = None, jitter: float = 0.0) -> None:
        if delays is not None:  # else a class of your own has them
            self.delays = delays
        self.jitter = number(jitter, "jitter", 0, 1)

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
        super().__init__(tuple(duration(delay, "a step of the ladder") for delay in delays), jitter)


class Fixed(RetryPolicy):
    """The same delay each time, `attempts` tries in all."""

    def __init__(self, delay: Duration, *, attempts: int = 10, jitter: float = 0.0) -> None:
        super().__init__((duration(delay, "delay"),) * (whole(attempts, "attempts", _MOST) - 1), jitter)


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
        factor = number(factor, "factor", 1, 1000)
        limit, delay, delays = duration(longest, "longest"), float(duration(first, "first")), []
        for _ in range(whole(attempts, "attempts", _MOST) - 1):
            delays.append(round(min(delay, limit)))
            delay = min(delay * factor, limit)  # never grows beyond it: no overflow at any attempt
        super().__init__(tuple(delays), jitter)


DEFAULT: Final = Ladder("5s", "30s", "1m", "10m", "30m", "1h", "6h", "1d", "2d", jitter=0.1)


def checked(policy: Any) -> RetryPolicy:
    """Return a policy. BadJob if it is none: not even a class of somebody's own that says what RetryPolicy does."""
    if isinstance(policy, type) or not callable(getattr(policy, "delay", None)):
        raise BadJob(f"retry must be a RetryPolicy, such as Ladder('5s', '1m'), not {policy!r:.60}")
    name = type(policy).__name__
    most = whole(getattr(policy, "max_attempts", None), f"max_attempts of {name}", _MOST)
    delays = getattr(policy, "delays", None)
    if not isinstance(delays, tuple | list) or (most > 1 and not delays):
        raise BadJob(
            f"{name} must have delays, a tuple of ms: they count after a lost lease, when nobody calls delay()"
        )
    for delay in delays:
        whole(delay, f"a delay of {name}", LONGEST, 0)
    return policy  # type: ignore[no-any-return]


def after_losses(policy: RetryPolicy) -> tuple[tuple[int, ...], float]:
    """Return the delays after lost leases, of which the last counts for all that follow, and their jitter."""
    delays = tuple(policy.delays)
    needed = len(delays)
    while needed > 1 and delays[needed - 1] == delays[needed - 2]:
        needed -= 1
    return delays[:needed], getattr(policy, "jitter", 0.0)


def asked(policy: RetryPolicy, attempt: int) -> tuple[int, str | None]:
    """Return what a policy says to wait after this attempt, in ms, and what was wrong with its answer, if anything."""
    try:
        answer: Any = policy.delay(attempt)
        wrong = f"gave {answer!r:.60}, not whole ms from 0 to {LONGEST}"
        if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer <= LONGEST:
            return answer, None
    except Exception as error:  # noqa: BLE001  (somebody else's code; the attempt failed anyhow)
        wrong = f"raised {type(error).__name__}: {error}"
    return DEFAULT.delay(attempt), f"the retry policy {type(policy).__name__} {wrong}"
