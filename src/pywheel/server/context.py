"""What all parts of the service share: the queue, access control and limits."""

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
from ..jobs.queries import GetJob, GetNote
from ..observe.tally import Labels
from ..stores.contract import Store, outcome_of
from .access import Access
from .api.waiting import Waiting
from .live import Live
from .problems import Problem, of_error
from .sse import Stopping

_LOGGER: Final = logging.getLogger("pywheel.server")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_RECEIPTS: Final = "http:receipts"  # the note with the key of receipts
_READERS: Final = 4  # threads that read the store: more would only take the processor from the commits
_LONG: Final = 4  # threads for work of seconds or minutes
_EXPORTS: Final = 16  # at once
_AGREED: Final = 1.0  # seconds for which the key of receipts is the one that was read
_READY: Final = 1.0  # seconds for which the last answer of the store counts
_QUIET: Final = 1.0  # seconds between two log lines about the store


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a client's requests."""

    request: int = 16 << 20
    """bytes of a request's body"""
    depth: int = 64
    """levels of nested JSON"""
    arriving: int = 128 << 20
    """bytes of bodies that arrive or are worked on, in one process; one token has half of what others leave"""
    arrival: float = 30.0
    """seconds that a request's body may take to arrive"""
    wait: float = 30.0
    """seconds that a reserve may wait for a job"""
    waiters: int = 10_000
    """waiting reserves in one process; one token has half of what others leave"""
    streams: int = 1_000
    """streams of events in one process, and as many live pages; one token has half of what others leave"""
    reserve: int = 16 << 20
    """bytes of the bodies in the answer to a reserve; a longer body comes alone"""
    batch: int = 4 << 20
    """bytes of a body of many jobs; other requests wait for their commits while it is read and stored"""


class Places:
    """The places for long work, such as streams and slow bodies, by token. For the loop only.

    A token has at most half of the places that others leave, so a newcomer finds one even if others want all. Without
    tokens there are no others.
    """

    def __init__(self, what: str, most: int, pause: int) -> None:
        """Take `what`, a problem's word for the contents of the places, and `pause`, the seconds until another try."""
        self._what = what
        self._most = most
        self._retry = {"retry-after": str(pause)}
        self._taken = Counter[str]()
        self._all = 0

    def take(self, token: str, number: int = 1) -> None:
        """Take places for a token, by its id; "" is everybody on an open server. Problem: it may have no more."""
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
        """Hold a place inside the `with` block. Problem: the token may have no more."""
        self.take(token)
        try:
            yield
        finally:
            self.leave(token)


class Context:
    """One service: `request.app.state.context`."""

    def __init__(self, queue: JobQueue, access: Access, read_only: bool, limits: Limits) -> None:
        self.queue, self.access, self.read_only, self.limits = queue, access, read_only, limits
        self.live = Live(lambda: self.queue.store)  # snapshots of the queue, for the page and all streams
        self.labels = Labels()  # the labels of topics in `/metrics`
        self.waiting: Waiting | None = None  # the callers that wait for jobs, made for the first of a loop
        self.bodies = Places("bytes of bodies", limits.arriving, 1)
        self.waits = Places("reserves that wait", limits.waiters, 1)
        self.streams = Places("streams", limits.streams, 5)
        self.views = Places("live pages", limits.streams, 5)
        self.exports = Places("exports", _EXPORTS, 5)  # each holds some MB in memory
        self.stopping = Stopping()
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._receipt_key: bytes | None = None
        self._key_read = float("-inf")
        self._look: asyncio.Task[Problem | None] | None = None
        self._looked = self._logged = float("-inf")

    def problem(self, error: PywheelError) -> Problem:
        """Return the problem for an error. The store's address and its trouble are for the log alone.

        A caller may have invented its token, which only the store could tell. An open server has no strangers.
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
        """Return a function's result, from a thread for short reads of the store."""
        return await self._in_threads("pywheel-reads", _READERS, partial(function, *args, **kwargs))

    async def long(self, function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Return a function's result, from a thread for work of seconds. It delays only other work of that kind."""
        return await self._in_threads("pywheel-long", _LONG, partial(function, *args, **kwargs))

    async def _in_threads(self, name: str, most: int, function: Callable[[], _R]) -> _R:
        if name not in self._threads:
            self._threads[name] = ThreadPoolExecutor(most, name)
        return await asyncio.get_running_loop().run_in_executor(self._threads[name], function)

    async def readiness(self) -> Problem | None:
        """Return why the store does not answer, or None if it answers. The result is at most a second old.

        The store is asked once a second, however many callers ask.
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
        """Return the key of receipts. It is in the store, as another server of the store may settle the job.

        It is read again each second: a store that lost it would leave every server with a key of its own.
        """
        now = time.monotonic()
        if self._receipt_key is None or now - self._key_read >= _AGREED:
            self._key_read = now  # requests of meanwhile take the key that is known
            try:
                self._receipt_key = await self.read(_receipt_key, self.queue.store, self._receipt_key)
            except StoreError:
                if self._receipt_key is None:
                    raise
        return self._receipt_key

    def waiting_here(self) -> Waiting:
        """Return the callers of the running loop that wait for jobs. Those of a loop that has ended wake nobody."""
        if self.waiting is None or not self.waiting.here:
            self.waiting = Waiting(self.queue.store)
        return self.waiting

    def close(self) -> None:
        """Release the service's own resources. The queue belongs to the caller. The next request begins anew."""
        waiting, self.waiting = self.waiting, None
        if waiting is not None:
            waiting.close()
        self.live.close()
        while self._threads:
            self._threads.popitem()[1].shutdown(wait=False, cancel_futures=True)


def _receipt_key(store: Store, known: bytes | None) -> bytes:
    """Return the store's key of receipts. A store without one gets the known key, or else a new one."""
    found = store.ask(GetNote(_RECEIPTS))
    if found is None:
        made = known or token_bytes(32)
        found = outcome_of(store, SetNote(_RECEIPTS, made, absent=True)) or made
    return found
