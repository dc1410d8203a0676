"""Asking several stores at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from ..._errors import StoreError

__all__ = ["Together"]

R = TypeVar("R")
_THREADS: Final = 32


class Together:
    """Runs calls side by side: the first in the caller's thread, the others in threads that are kept."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def __call__(self, calls: Sequence[Callable[[], R]]) -> list[R | StoreError]:
        """Return what each call returned, or the StoreError that it raised. Raises other errors."""
        others = [self._begin(call) for call in calls[1:]]
        found = [_tried(call) for call in calls[:1]]
        return found + [other() for other in others]

    def _begin(self, call: Callable[[], R]) -> Callable[[], R | StoreError]:
        threads = self._threads
        if threads is None:
            threads = self._threads = ThreadPoolExecutor(_THREADS, "pywheel-store")
        try:
            future: Future[R | StoreError] = threads.submit(_tried, call)
        except RuntimeError:  # closed, or the interpreter ends: then one after the other
            return lambda: _tried(call)
        return future.result

    def close(self) -> None:
        """Let the threads end."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    def after_fork(self) -> None:
        """Begin anew in a forked child, which has none of the threads."""
        self._threads = None


def _tried(call: Callable[[], R]) -> R | StoreError:
    try:
        return call()
    except StoreError as error:
        return error
