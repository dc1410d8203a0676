"""A thread that listens to a store for all waiting callers of a process, as one of the workers, while there are any."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from .._errors import StoreClosed, StoreError, StoreReplaced
from ..jobs.commands import Announce
from ..jobs.queries import Member
from .contract import Store, intact, pauses
from .notifier import Notifier

_LINGER: Final = 2.0  # seconds that a topic stays announced after its last waiter has left
_BACKOFF: Final = (0.05, 1.0)  # seconds between tries while the store is away: first, longest


@dataclass(slots=True)
class Topic:
    """A topic that somebody waits for, or did a moment ago."""

    waiters: OrderedDict[Any, None] = field(default_factory=OrderedDict)
    _left_at: float = 0.0  # when the last waiter left

    def leave(self, waiter: object) -> None:
        """Remove a waiter."""
        self.waiters.pop(waiter, None)
        if not self.waiters:
            self._left_at = time.monotonic()

    @property
    def deserted(self) -> bool:
        """Whether nobody has waited for a while."""
        return not self.waiters and time.monotonic() - self._left_at >= _LINGER


T = TypeVar("T", bound=Topic)


class StoreListener(ABC, Generic[T]):
    """The common thread of all waiters. It begins with the first of them, and ends when nobody has waited for a while.

    While the store is away it tries again.

    Args:
        name: the thread's name.
        prefix: the beginning of its id among the workers.
        what: its work, for the log.
        sign: the prefix of the topics that it announces.
    """

    def __init__(self, store: Store, name: str, prefix: str, what: str, sign: str, logger: logging.Logger) -> None:
        self._store, self._name, self._prefix, self._what, self._sign = store, name, prefix, what, sign
        self._logger = logger
        self._after_fork()

    def _after_fork(self) -> None:
        """Begin without a thread: at first, and in a forked child. The notifier and the waiters are the parent's."""
        self._mutex = threading.RLock()  # a signal handler may close the store
        self._topics: dict[str, T] = {}
        self._announced: tuple[str, ...] = ()
        self._closed = False
        self._heard = False  # whether the store was there since the thread began to listen
        self._notifier: Notifier | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def _turn(self, notifier: Notifier, topics: tuple[str, ...], *, announced: bool) -> None:
        """Do the present work for these topics, and wait. `announced`: the topics have just been announced."""

    @abstractmethod
    def _fail(self, error: Exception) -> None:
        """Release all waiters, as the thread cannot go on."""

    def _begin(self) -> None:
        """Start the thread if needed. The caller has the mutex: so no thread starts once `close` has looked."""
        if self._thread is None or not self._thread.is_alive():  # an error after an error may have ended it
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread

    def _wake(self) -> None:
        notifier = self._notifier
        if notifier is not None:
            notifier.wake()

    def close(self) -> None:
        """Stop listening."""
        with self._mutex:
            self._closed = True
        self._wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_BACKOFF[1] + 1)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        tries = None
        while not self._over():
            self._heard = False
            try:
                self._listen()
                tries = None
            except (StoreClosed, StoreReplaced) as error:
                self._fail(error)
            except StoreError as error:
                if tries is None or self._heard:
                    self._logger.warning("%s must wait for the store: %s", self._what, error)
                    tries = pauses(*_BACKOFF)
                time.sleep(next(tries))
            except Exception as error:  # nobody may wait for a thread that has ended, whatever the error
                self._logger.exception("%s has failed", self._what)
                self._fail(error)

    def _over(self) -> bool:
        """Whether nobody waits any more. The next waiter begins another thread."""
        with self._mutex:
            deserted = not any(topic.waiters for topic in self._topics.values())
            if deserted:  # otherwise `close` tells those who still wait
                self._topics = {}
            over = self._closed or deserted
            if over:
                self._thread = None
            return over

    def _listen(self) -> None:
        """Listen until nobody has waited for a while, or an error."""
        notifier = self._notifier = self._store.notifier(f"{self._prefix}:{socket.gethostname()}:{os.getpid()}")
        try:
            self._announced = ()
            while not self._closed and (topics := self._wanted()):
                changed = topics != self._announced
                if changed:
                    self._announce(notifier, topics)
                self._turn(notifier, topics, announced=changed)
                self._heard = True
            self._store.apply([Announce(notifier.worker, ())])
        finally:
            self._notifier = None
            notifier.close()

    def _wanted(self) -> tuple[str, ...]:
        """Return the topics that somebody waits for, or did a moment ago."""
        with self._mutex:
            for name in [name for name, topic in self._topics.items() if topic.deserted]:
                del self._topics[name]
            return tuple(self._topics)

    def _announce(self, notifier: Notifier, topics: tuple[str, ...]) -> None:
        intact(self._store.apply([Announce(notifier.worker, tuple(self._sign + topic for topic in topics))]))
        self._announced = topics

    def _beat(self, notifier: Notifier, behind: int = 0) -> tuple[Member, ...]:
        """Show that this member is still here, announce it again if it was taken for gone; return all members."""
        notifier.beat(behind)
        members = notifier.members()
        if all(member.worker != notifier.worker for member in members):
            self._announce(notifier, self._announced)
            members = notifier.members()
        return members
