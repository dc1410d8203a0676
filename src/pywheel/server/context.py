"""What all parts of the service share: the queue, who may do what, and the limits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from secrets import token_bytes
from typing import Final, ParamSpec, TypeVar

from .._errors import PywheelError, StoreClosed, StoreError
from ..client.queue import JobQueue
from ..jobs.commands import SetNote
from ..jobs.queries import GetJob
from ..observe.tally import Labels
from ..stores.contract import Store, outcome_of
from .access import Access
from .api.waiting import Waiting
from .live import Live
from .problems import Problem, of_error

__all__ = ["Context", "Limits"]

_LOGGER: Final = logging.getLogger("pywheel.server")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_READERS: Final = 4  # threads that read the store: more of them would only take the processor from the commits
_LONG: Final = 4  # threads for what goes on for seconds, or minutes
_EXPORTS: Final = 16  # at once
_READY: Final = 1.0  # seconds for which what the store was last asked says whether it answers
_QUIET: Final = 1.0  # seconds between two lines of the log about the store


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may ask for."""

    request: int = 16 << 20
    """bytes of a request's body"""
    depth: int = 64
    """levels of JSON within JSON"""
    arriving: int = 128 << 20
    """bytes of bodies that are arriving at once in one process; one token has half of what others leave"""
    arrival: float = 30.0
    """seconds that a request's body may take to arrive"""
    wait: float = 30.0
    """seconds that a reserve may wait for a job"""
    waiters: int = 10_000
    """reserves that wait at once in one process; one token has half of what others leave"""
    streams: int = 1_000
    """streams of events at once in one process, and as many live pages; one token has half of what others leave"""
    reserve: int = 16 << 20
    """bytes of the bodies that a reserve gives; a longer one is given alone"""
    batch: int = 4 << 20
    """bytes of a body of many jobs: while such a one is read and stored, others wait for their commits"""


class Places:
    """Who has how many places for what goes on for long, such as streams and slow bodies. Used on the loop only.

    A token has at most half of those that others leave: so whoever comes finds one, however many want all. Without
    tokens there are no others.
    """

    def __init__(self, what: str, most: int, pause: int) -> None:
        """`what` is in the places, as a problem says it; `pause` is the seconds after which to try again."""
        self._what = what
        self._most = most
        self._retry = {"retry-after": str(pause)}
        self._taken = Counter[str]()
        self._all = 0

    def take(self, token: str, number: int = 1) -> None:
        """Take places for a token, by its id; "" is everybody where there are none. Problem: it may have no more."""
        if self._all + number > self._most:
            text = f"{self._all} {self._what} are open here already: try again, or start another server"
            raise Problem("too-busy", text, headers=self._retry)
        share = (self._most - self._all + self._taken[token] + 1) // 2
        if token and self._taken[token] + number > share:
            text = (
                f"this token has {self._taken[token]} {self._what} open here, and its share is {share}, half of what "
                "others leave: end some, try again, or start another server"
            )
            raise Problem("share-taken", text, headers=self._retry, more={"share": share})
        self._taken[token] += number
        self._all += number

    def leave(self, token: str, number: int = 1) -> None:
        """Give places back."""
        self._all -= number
        self._taken[token] -= number
        if not self._taken[token]:
            del self._taken[token]

    @contextmanager
    def place(self, token: str) -> Iterator[None]:
        """Have a place for as long as this lasts. Problem: the token may have no more."""
        self.take(token)
        try:
            yield
        finally:
            self.leave(token)


class Context:
    """One service: `request.app.state.context`."""

    def __init__(self, queue: JobQueue, access: Access, read_only: bool, limits: Limits) -> None:
        self.queue, self.access, self.read_only, self.limits = queue, access, read_only, limits
        self.live = Live(lambda: self.queue.store)  # what is to be seen of the queue: for the page and all streams
        self.labels = Labels()  # what topics are called by `/metrics`
        self.waiting: Waiting | None = None  # who waits for jobs; made when the first one does
        self.bodies = Places("bytes of bodies", limits.arriving, 1)
        self.waits = Places("reserves that wait", limits.waiters, 1)
        self.streams = Places("streams", limits.streams, 5)
        self.views = Places("live pages", limits.streams, 5)
        self.exports = Places("exports", _EXPORTS, 5)  # each of which has some MB in memory
        self.stopping = asyncio.Event()  # set once the server drains: long polls and streams end
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._receipt_key: bytes | None = None
        self._look: asyncio.Task[Problem | None] | None = None
        self._looked = self._logged = float("-inf")

    def problem(self, error: PywheelError) -> Problem:
        """Return the problem that an error is. Where the store is, and what ails it, is for the log alone.

        Whoever asks may have made his token up, which only the store could tell. An open server has no strangers.
        """
        problem = of_error(error)
        if not isinstance(error, StoreError) or isinstance(error, StoreClosed):
            return problem
        now = time.monotonic()
        if now - self._logged > _QUIET:
            self._logged = now
            _LOGGER.warning("the store failed: %s: %s", type(error).__name__, error)
        if self.access.open:
            return problem
        text = "the store does not do what it is asked: the log of this server says why"
        return Problem(problem.kind, text, headers=problem.headers)

    async def read(self, function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Return what a function says that reads a little of the store, called in a thread of its own."""
        return await self._in_threads("pywheel-reads", _READERS, partial(function, *args, **kwargs))

    async def long(self, function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Return what a function says that may take seconds: it holds up others of its kind alone."""
        return await self._in_threads("pywheel-long", _LONG, partial(function, *args, **kwargs))

    async def _in_threads(self, name: str, most: int, function: Callable[[], _R]) -> _R:
        if name not in self._threads:
            self._threads[name] = ThreadPoolExecutor(most, name)
        return await asyncio.get_running_loop().run_in_executor(self._threads[name], function)

    async def readiness(self) -> Problem | None:
        """Return why the store does not answer, None if it does, as of a second ago at most.

        However many ask, the store is asked once a second.
        """
        loop, look = asyncio.get_running_loop(), self._look
        if look is None or look.get_loop() is not loop or (look.done() and time.monotonic() - self._looked >= _READY):
            self._looked = time.monotonic()
            look = self._look = loop.create_task(self._ask_store())
        return await asyncio.shield(look)

    async def _ask_store(self) -> Problem | None:
        try:
            await self.read(self.queue.store.ask, GetJob(1))
        except StoreError as error:
            return self.problem(error)
        return None

    async def receipt_key(self) -> bytes:
        """Return the key of receipts: it lies in the store, as a job may be settled at another server of that."""
        if self._receipt_key is None:
            self._receipt_key = await self.read(_receipt_key, self.queue.store)
        return self._receipt_key

    def close(self) -> None:
        """Let go of what the service itself has begun. The queue is its owner's."""
        if self.waiting is not None:
            self.waiting.close()
        self.live.close()
        while self._threads:
            self._threads.popitem()[1].shutdown(wait=False, cancel_futures=True)


def _receipt_key(store: Store) -> bytes:
    """Return the store's key of receipts, made when one is wanted first."""
    made = token_bytes(32)
    return outcome_of(store, SetNote("http:receipts", made, absent=True)) or made
