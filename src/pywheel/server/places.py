"""Places for what goes on for long, such as streams and slow bodies: there are so many, and no token takes all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from .problems import Problem

__all__ = ["Places"]


class Places:
    """Who has how many places. Used on the loop only.

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
