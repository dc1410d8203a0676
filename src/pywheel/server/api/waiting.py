"""Reserves that wait: one thread listens to the store for all of a process, and wakes who waits for what is due.

It is one among the workers: it announces the topics that somebody waits for, hears of what is put there, and knows when
the next job of each is due. Who is woken claims for himself. What the owners of other shards leave lying is looked for
a few times a second, by one query for all topics. No table is polled for each who waits.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import Final

from ..._errors import StoreClosed, StoreError, StoreReplaced
from ...jobs.commands import Announce
from ...stores.contract import Store, pauses
from ...stores.notifier import Notifier
from .listener import Listener

__all__ = ["Waiter", "Waiting"]

_LOGGER: Final = logging.getLogger("pywheel.server")
_IDLE: Final = 1.0  # seconds without anything to do
_LINGER: Final = 2.0  # seconds that a topic stays announced after the last one has waited for it
_PATIENCE: Final = (0.02, 1.0)  # seconds before somebody is woken again for a topic that gave nothing: first, longest
_SOME: Final = 500  # topics in one query: whoever waits for thousands makes nobody else late
_BACKOFF: Final = (0.05, 1.0)  # seconds between tries while the store is away: first, longest


class Waiter:
    """One who waits. Used on the loop only."""

    __slots__ = ("_event", "topic", "topics")

    def __init__(self, topics: Sequence[str]) -> None:
        self.topics = topics
        self.topic: str | None = None
        """The topic that it was woken for; None: for several."""
        self._event = asyncio.Event()

    def wake(self, topic: str) -> None:
        """Let it claim."""
        self.topic = topic if self.topic == topic or not self.rung else None
        self._event.set()

    @property
    def rung(self) -> bool:
        """Whether it was woken, and has not seen it."""
        return self._event.is_set()

    async def woken(self) -> None:
        """Return when woken, at once if that was since the last `take`."""
        await self._event.wait()

    def take(self) -> str | None:
        """Return the topic that it was woken for, and see to it. Who leaves without that leaves it to the next one."""
        self._event.clear()
        return self.topic


class _Topic:
    """A topic that somebody waits for, or did a moment ago."""

    __slots__ = ("due", "left_at", "patience", "quiet_until", "waiters")

    def __init__(self) -> None:
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()
        self.left_at = 0.0  # since when nobody waits
        self.due: int | None = None  # when to wake somebody, ms
        self.patience = _PATIENCE[0]
        self.quiet_until = 0.0  # it gave nothing though it was due: it may be paused

    def hushed(self, now: float) -> None:
        """Wake nobody again for a moment, unless something was claimed or put meanwhile."""
        self.due = None
        self.quiet_until = now + self.patience
        self.patience = min(2 * self.patience, _PATIENCE[1])

    def stirred(self) -> None:
        """Wake somebody as soon as something is due."""
        self.quiet_until, self.patience = 0.0, _PATIENCE[0]


class Waiting:
    """All who wait in this process. `enter`, `leave` and `claimed` are called on the loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._mutex = threading.Lock()
        self._topics: dict[str, _Topic] = {}
        self._unseen: set[str] = set()  # topics whose next due time is to be read
        self._later: dict[str, None] = {}  # those whose turn to be read comes after them
        self._rest = 0.0  # seconds until it does
        self._changed = False  # whether other topics are to be announced
        self._closed = False
        self._notifier: Notifier | None = None
        self._thread: threading.Thread | None = None
        self.count = 0

    # ---- on the loop ------------------------------------------------------------------------------------------------

    def enter(self, topics: Sequence[str]) -> Waiter:
        """Begin to wait for jobs of topics. What is due by now the caller claims itself, after this."""
        waiter = Waiter(topics)
        fresh = False
        with self._mutex:
            for name in topics:
                topic = self._topics.get(name)
                if topic is None:
                    topic = self._topics[name] = _Topic()
                    self._unseen.add(name)
                    self._changed = fresh = True
                topic.waiters[waiter] = None
        self.count += 1
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="pywheel-waiting", daemon=True)
            self._thread.start()
        elif fresh:
            self._wake()
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Wait no longer. Whom it was woken for may be for the next one."""
        self.count -= 1
        now = time.monotonic()
        with self._mutex:
            for name in waiter.topics:
                topic = self._topics[name]
                topic.waiters.pop(waiter, None)
                if not topic.waiters:
                    topic.left_at = now
        if waiter.rung:
            for name in waiter.topics if waiter.topic is None else (waiter.topic,):
                self._ring(name, 1)

    def claimed(self, name: str, jobs: int, *, more: bool) -> None:
        """Take in what a claim says of a topic: so many were claimed, and there may be more that is due."""
        topic = self._topics.get(name)
        if topic is None:
            return
        if jobs:
            topic.stirred()
        if more:
            self._ring(name, 2)
            return
        with self._mutex:
            self._unseen.add(name)
        self._wake()

    def _ring(self, name: str, count: int) -> None:
        """Wake some who wait for a topic: the first of those who are not woken for another one, who then comes last."""
        with self._mutex:
            topic = self._topics.get(name)
            if topic is None:
                return
            idle = (waiter for waiter in topic.waiters if not waiter.rung)
            for waiter in list(islice(idle, count)) or list(islice(topic.waiters, 1)):
                topic.waiters.move_to_end(waiter)
                waiter.wake(name)

    def _ring_all(self, rung: Sequence[tuple[str, int]]) -> None:
        for name, count in rung:
            self._ring(name, count)

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        self._wake()
        if self._thread is not None:
            self._thread.join(_BACKOFF[1] + 1)

    def _wake(self) -> None:
        notifier = self._notifier
        if notifier is not None:
            notifier.wake()

    # ---- in the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        tries = None
        while not self._closed:
            try:
                self._listen()
            except (StoreClosed, StoreReplaced, RuntimeError):  # the loop was closed meanwhile
                return
            except StoreError as error:
                if tries is None:
                    _LOGGER.warning("waiting for jobs must wait for the store: %s", error)
                    tries = pauses(*_BACKOFF)
                time.sleep(next(tries))
            else:
                return

    def _listen(self) -> None:
        """Listen until nobody has waited for a while, or an error."""
        notifier = self._store.notifier(f"http:{socket.gethostname()}:{os.getpid()}")
        try:
            self._notifier = notifier
            listener = Listener(self._store, notifier)
            with self._mutex:
                self._changed = True
            while not self._closed and self._turn(listener):
                pass
            self._store.apply([Announce(notifier.worker, ())])
        finally:
            if self._notifier is notifier:
                self._notifier = None
            notifier.close()

    def _turn(self, listener: Listener) -> bool:
        """Do all there is to do now, and wait; False if nobody has waited for a while."""
        now = time.monotonic()
        with self._mutex:
            for name in [name for name, topic in self._topics.items() if _deserted(topic, now)]:
                del self._topics[name]
                self._changed = True
            if not self._topics:
                self._thread = None  # whoever enters from here on begins another one
                return False
            changed, self._changed = self._changed, False
            names = tuple(self._topics)
            waits = any(topic.waiters for topic in self._topics.values())
        if changed:
            listener.announce(names)
        look = listener.look(behind=self._behind(waits=waits))
        hints = listener.hints()
        if changed or look or hints is None:
            self._later |= dict.fromkeys(names)
        counted: dict[str, int] = {}
        with self._mutex:
            for due, _, name, _ in hints or ():
                topic = self._topics.get(name)
                if topic is not None:
                    counted[name] = counted.get(name, 0) + 1
                    topic.due = due if topic.due is None else min(topic.due, due)
                    topic.stirred()
        began = time.monotonic()
        for name, first in listener.firsts(self._some()).items():
            if name in self._topics:
                self._topics[name].due = first
        self._rest = time.monotonic() - began
        rung = self._due(counted)
        if rung:
            self._loop.call_soon_threadsafe(self._ring_all, rung)
        listener.wait(self._next())
        return True

    def _some(self) -> list[str]:
        """Return the topics to be read now."""
        with self._mutex:
            some = list(islice(self._unseen, _SOME))
            self._unseen.difference_update(some)
            some += islice(self._later, _SOME - len(some))
            for name in some:
                self._later.pop(name, None)
            return [name for name in some if name in self._topics]

    def _behind(self, *, waits: bool) -> int:
        """Return since when something is due that nobody here takes."""
        if waits:
            return 0
        wall = self._store.clock.wall()
        late = [topic.due for topic in list(self._topics.values()) if topic.due is not None and topic.due < wall]
        return min(late, default=-1)

    def _due(self, counted: dict[str, int]) -> list[tuple[str, int]]:
        """Return whom to wake: topics, and how many who wait for it."""
        wall, now = self._store.clock.wall(), time.monotonic()
        rung = []
        for name, topic in list(self._topics.items()):
            if topic.due is not None and topic.due <= wall and now >= topic.quiet_until and topic.waiters:
                rung.append((name, max(counted.get(name, 1), 1)))
                topic.hushed(now)  # until who was woken says what there was
        return rung

    def _next(self) -> float:
        """Return for how many seconds there is nothing to do."""
        if self._unseen or self._changed:
            return 0.0
        now, clock = time.monotonic(), self._store.clock
        times = [
            max(clock.until(topic.due), topic.quiet_until - now)
            for topic in list(self._topics.values())
            if topic.due is not None and topic.waiters
        ]
        if self._later:
            times.append(self._rest)
        return max(min(times, default=_IDLE), 0.0)


def _deserted(topic: _Topic, now: float) -> bool:
    return not topic.waiters and now - topic.left_at > _LINGER
