"""Cron expressions in a time zone: when the next tick comes, and when the last one came.

cronsim interprets the expressions as Debian's cron does, even on the days on which clocks are changed. All times are
wall clock, in whole milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, Final

from .._errors import BadOption
from .checks import needed
from .durations import refuse_long

_DAY: Final = 86_400_000  # ms: longer than any change of a zone's clock
_LATELY: Final = (10_000, 600_000, 7_200_000, _DAY)  # ms back in which the last tick is searched, one by one
_LONGEST: Final = 500  # characters: sixty minutes one by one are 169
_START: Final = 946_684_800_000  # the year 2000: an expression without a tick in the 50 years from then never has one


class ZoneMissing(BadOption):
    """A time zone is not known on this machine; another one may know it."""


def checked(expression: Any, tz: Any) -> tuple[str, str]:
    """Return an expression and the name of a zone. BadOption if there is no such zone, or no tick ever comes."""
    if not isinstance(expression, str):
        raise BadOption(f"a cron expression must be text such as '0 3 * * *', not {type(expression).__name__}")
    if not isinstance(tz, str):
        raise BadOption(f"tz must be the name of a zone such as 'Europe/Berlin', not {type(tz).__name__}")
    refuse_long(expression, "a cron expression", _LONGEST, error=BadOption)
    refuse_long(tz, "tz", error=BadOption)
    zone(tz)
    if after(expression, tz, _START) is None:
        raise BadOption(f"the cron expression {expression[:80]!r} has no tick: it names a day that does not exist")
    return " ".join(expression.split()), tz


@lru_cache(maxsize=1_024)
def zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name. ZoneMissing, a BadOption, if it is not known here."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # most programs need no zones

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise ZoneMissing(
            f"there is no time zone {name[:80]!r}: write it like 'Europe/Berlin'; pip install tzdata if none is known"
        ) from error


def after(expression: str, tz: str, time: int) -> int | None:
    """Return the time of the first tick later than `time`; None if there is none within 50 years."""
    # Where clocks go back, local times come twice: some of the ticks are over.
    return next((tick for tick in _ticks(expression, tz, time) if tick > time), None)


def until(expression: str, tz: str, time: int) -> int | None:
    """Return the time of the last tick not later than `time`; None if there is none within 50 years."""
    for span in _LATELY:  # from there on each tick is a step
        if (found := after(expression, tz, time - span)) is not None and found <= time:
            return _last(expression, tz, found, time)
    before = next(_ticks(expression, tz, time - _DAY, reverse=True), None)
    found = None if before is None else after(expression, tz, before - 1)
    return None if found is None or found > time else _last(expression, tz, found, time)


def _last(expression: str, tz: str, tick: int, time: int) -> int:
    """Return the last tick up to `time`, stepping from an earlier tick."""
    while (following := after(expression, tz, tick)) is not None and following <= time:
        tick = following
    return tick


def _ticks(expression: str, tz: str, time: int, *, reverse: bool = False) -> Iterator[int]:
    """Yield the ticks after a time, or before it in reverse. BadOption if the expression makes no sense."""
    sim, error = _cronsim()
    try:
        for tick in sim(expression, datetime.fromtimestamp(time / 1000, zone(tz)), reverse=reverse):
            yield int(tick.timestamp()) * 1000
    except error as wrong:
        raise BadOption(
            f"{expression[:80]!r} is not a cron expression ({wrong}): five fields, minute hour day month weekday, "
            "such as '0 3 * * *', or six with seconds first"
        ) from None
    except OverflowError:  # the end of the calendar
        return


@lru_cache(maxsize=1)
def _cronsim() -> tuple[Any, type[Exception]]:
    module = needed("cronsim", "cron")
    return module.CronSim, module.CronSimError
