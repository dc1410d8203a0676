"""A store in front of another."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ..jobs.job import Job
from .contract import Store


def _of_described(name: str) -> Any:
    """Return a property whose value is that of the store behind, also while it is away."""
    return property(lambda front: getattr(front._described(), name))


def _of_there(name: str) -> Any:
    """Return a method that calls the store behind."""

    def method(front: Front, *args: Any, **kwargs: Any) -> Any:
        return getattr(front._there(), name)(*args, **kwargs)

    return method


class Front(Store):
    """Answers as the store behind it does, which may be away. Subclasses override the differences."""

    @abstractmethod
    def _there(self) -> Store:
        """Return the store behind. StoreAway if it is not there."""

    def _close_beside(self, kept: Any) -> None:  # noqa: ARG002  (subclasses spare a store that is behind both)
        """Close this front beside one of the same class, which is kept."""
        self.close()

    def _described(self) -> Store:
        """Return the store whose properties this one has, also while it is away."""
        return self._there()

    url = _of_described("url")
    secret_url = _of_described("secret_url")
    clock = _of_described("clock")
    durability = _of_described("durability")
    keeps_limits = _of_described("keeps_limits")
    ids_grow = _of_described("ids_grow")

    apply_within = _of_there("apply_within")
    ask = _of_there("ask")
    died = _of_there("died")
    notifier = _of_there("notifier")
    quiet = _of_there("quiet")
    about = _of_there("about")
    vacuum = _of_there("vacuum")
    verify = _of_there("verify")

    def opened(self, job: Job) -> Job:
        """Return a claimed job as its handler gets it, also while the store is away."""
        return self._described().opened(job)

    def close(self) -> None:
        """Close the store behind. Idempotent."""
        self._described().close()


def close_beside(kept: Store, store: Store) -> None:
    """Close a store that was opened beside the kept one, but no store that is behind both of them."""
    if store is kept:
        return
    if isinstance(store, Front) and type(store) is type(kept):
        store._close_beside(kept)
    else:
        store.close()
