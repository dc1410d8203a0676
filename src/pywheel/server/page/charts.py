"""Charts of hours and days, from the workers' notes: how many jobs ended and failed, and how late they were claimed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import islice
from typing import Final, NamedTuple

from starlette.responses import Response

from ...jobs.ends import FIVE, HOUR, HOURS, Ends, ends_of, hour_of
from ...stores.contract import Store, notes
from ..problems import Problem
from .answers import Ask
from .drawings import series, trend

_NOTES: Final = 200  # workers' notes in one read
_SETTLED: Final = 120_000  # ms after which an hour no longer changes: workers write their notes twice a minute
_SPANS: Final = {"day": (24 * HOUR, FIVE), "two": (HOURS * HOUR, HOUR)}  # the length of a chart, and of a bar
_ROWS: Final = 100  # topics that are shown: those with the most jobs
_TREND: Final = 48  # values in a topic's line
_NONE: Final = Ends()


class Row(NamedTuple):
    """The ends of a topic's jobs in the chart."""

    topic: str
    ends: Ends
    line: str  # the path of the trend


class Charts:
    """The charts, and the past hours, which are read once."""

    def __init__(self) -> None:
        self._hours: dict[int, dict[str, dict[int, Ends]]] = {}
        self._set_to = 0.0  # ms that the store's wall clock was ahead of its monotonic one

    async def show(self, ask: Ask) -> Response:
        """Show a day by five minutes, or two days by hours, of all visible topics or of one."""
        span, topic = ask.query.get("span", "day"), ask.topic
        if span not in _SPANS:
            raise Problem("not-found", f"there is no such span: {', '.join(_SPANS)}")
        (long, step), now = _SPANS[span], ask.now
        known = await ask.context.long(self._read, ask.store, now)
        seen = {name: slots for name, slots in known.items() if ask.visitor.everywhere or ask.visitor.may("read", name)}
        first = now - now % step + step - long
        rows = _rows(seen, first, long)
        bars = _bars([slots for name, slots in seen.items() if topic in (None, name)], first, step, long // step)
        return ask.page(
            "charts.html",
            charts=[
                series(word, [each[place] for each in bars], first, step) for place, word in enumerate(Ends._fields)
            ],
            table=[(first + place * step, each) for place, each in enumerate(bars) if any(each)][::-1],
            rows=rows[:_ROWS],
            rest=max(len(rows) - _ROWS, 0),
            topic=topic,
            span=span,
        )

    def _read(self, store: Store, now: int) -> dict[str, dict[int, Ends]]:
        """Return the ends of jobs, by topic and five minutes. O(hours), plus workers and topics of the last hour."""
        set_to = now - store.clock.time() * 1000
        if abs(set_to - self._set_to) > _SETTLED:  # the clock was set: what was past may be to come
            self._hours = {}
        self._set_to = set_to
        found: dict[str, dict[int, Ends]] = {}
        for hour in range(now // HOUR - HOURS, now // HOUR + 1):
            at = hour * HOUR
            table = self._hours.get(hour)
            if table is None:
                table = ends_of(at, [value for _, value in notes(store, hour_of(at), _NOTES)])
            if now - at > HOUR + _SETTLED:
                self._hours[hour] = table
            for topic, slots in table.items():
                found.setdefault(topic, {}).update(slots)
        for old in list(islice(self._hours, max(len(self._hours) - HOURS - 1, 0))):
            self._hours.pop(old, None)  # another thread may have looked, too
        return found


def _bars(topics: list[dict[int, Ends]], first: int, step: int, number: int) -> list[Ends]:
    """Return the ends of jobs of all these topics, in `number` stretches from `first` on."""
    found = [_NONE] * number
    for slots in topics:
        for at, ends in slots.items():
            place = (at - first) // step
            if 0 <= place < number:
                found[place] = found[place].plus(ends)
    return found


def _rows(topics: Mapping[str, dict[int, Ends]], first: int, long: int) -> list[Row]:
    """Return the topics with ended jobs, those with the most jobs first."""
    rows = []
    for topic, slots in topics.items():
        bars = _bars([slots], first, long // _TREND, _TREND)
        whole = reduce(Ends.plus, bars, _NONE)
        if any(whole):
            rows.append(Row(topic, whole, trend([each.done for each in bars])))
    return sorted(rows, key=lambda row: (-row.ends.done - row.ends.failed, row.topic))
