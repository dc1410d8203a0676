"""Several stores as one. Each step of a queue or worker goes to those that it concerns, at once.

What one store is asked for is one transaction. What several are asked for is one in each: a store that fails has
changed nothing, and the others have. Who is there, and what is paused, is decided in the first.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar
from zlib import crc32

from ..._errors import PywheelError, StoreError
from ...clock import Clock
from ...jobs import commands as c
from ...jobs.queries import Query
from ..checks import sound
from ..contract import Durability, Store, intact
from ..verify import EXAMPLES, Finding
from .answers import ANSWERS
from .ids import Ids
from .inner import Inner
from .parts import Answers, Part, Round, inner_put, new_jobs, parts
from .steps import STEPS
from .together import Together

__all__ = ["SeveralStore"]

R = TypeVar("R")
_TURN: Final = 64  # jobs put into one store before the next has its turn: threads share its commits meanwhile
_WEAKEST: Final[tuple[Durability, ...]] = ("memory", "everysec", "fsync")


class SeveralStore(Store):
    """One store of several of a kind, which nobody else uses.

    A key is decided in one store, and so is a nonce. Puts without either go to one store after the other.
    """

    ids_grow = False
    keeps_limits = False

    def __init__(self, stores: Sequence[Inner]) -> None:
        self.stores = stores
        self.ids = Ids(len(stores))
        self.durability = min((store.durability for store in stores), key=_WEAKEST.index)
        self._together = Together()
        self._turns = count()
        self._begin()

    def _begin(self) -> None:
        """Begin to put in this process. Others begin with other stores."""
        self._here = crc32(f"{socket.gethostname()} {os.getpid()}".encode()) % len(self.stores)
        self._left = _TURN

    @property
    def clock(self) -> Clock:  # type: ignore[override]
        """The first store's clock. Each judges by its own what is due."""
        return self.stores[0].clock

    # ---- asking -----------------------------------------------------------------------------------------------------

    def each(self, call: Callable[[Inner], R]) -> list[R]:
        """Return what each store answers, in order. Raises the first one's error, once all have ended."""
        return self._all([partial(call, store) for store in self.stores])

    def try_each(self, call: Callable[[Inner], R]) -> list[R | StoreError]:
        """Return what each store answers, in order, or its error. Raises the first one where none answers."""
        found = self._together([partial(call, store) for store in self.stores])
        if all(isinstance(one, StoreError) for one in found):
            intact(found)
        return found

    def _all(self, calls: Sequence[Callable[[], R]]) -> list[R]:
        found: list[R] = []
        for one in self._together(calls):
            if isinstance(one, StoreError):
                raise one
            found.append(one)
        return found

    def send(self, batches: Mapping[int, Sequence[c.Command[Any]]]) -> Answers:
        """Return by store the outcomes of the commands it is to apply, or its error."""
        answers = self._together([partial(self.stores[store].apply, batch) for store, batch in batches.items()])
        return dict(zip(batches, answers, strict=True))

    def send_all(self, batches: Mapping[int, Sequence[c.Command[Any]]]) -> dict[int, list[Any]]:
        """Return the same. Raises the first error, once all have ended."""
        calls = [partial(self.stores[store].apply, batch) for store, batch in batches.items()]
        return dict(zip(batches, self._all(calls), strict=True))

    def one(self, store: int, command: c.Command[R]) -> R:
        """Return the outcome of a command to one store; raises what is an error."""
        [outcome] = self.stores[store].apply([command])
        if isinstance(outcome, PywheelError):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    def in_turn(self) -> Iterator[int]:
        """Yield all stores, each time with another one first."""
        first = next(self._turns)
        return ((first + place) % len(self.stores) for place in range(len(self.stores)))

    # ---- writing ----------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands in order, those for each store in one transaction; see the contract.

        What a store that is away was asked for has its error as outcome. Raises it if nothing else happened.
        """
        outcomes = sound(commands, self._apply)
        if outcomes and all(isinstance(outcome, StoreError) for outcome in outcomes):
            raise outcomes[0]
        return outcomes

    def _apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        outcomes: list[Any] = []
        now, here = self.clock.wall(), self._here
        if all(type(command) is c.Put and _is_plain(command) for command in commands):
            return self._put_here(commands, here)
        together = Round(self.ids, now)
        for command in commands:
            some = self._put(command, here) if isinstance(command, c.Put | c.Import) else parts(self.ids, command)
            if some is not None:
                together.add(command, some)
                continue
            outcomes += together.outcomes(self.send(together.batches))
            together = Round(self.ids, now)
            try:
                outcomes.append(STEPS[type(command)](self, command))
            except PywheelError as error:
                outcomes.append(error)
        outcomes += together.outcomes(self.send(together.batches))
        self._next(here)
        return outcomes

    def _put_here(self, puts: Sequence[Any], here: int) -> list[Any]:
        """Apply puts without keys and nonces, in one store."""
        self._left -= sum(len(put.jobs) for put in puts)
        try:
            found = self.stores[here].apply(puts)
        except StoreError:
            self._left = 0  # the next ones go elsewhere
            raise
        finally:
            self._next(here)
        all_outer = self.ids.all_outer
        return [ids if isinstance(ids, PywheelError) else all_outer(here, ids) for ids in found]

    def _next(self, here: int) -> None:
        """Put into another store, if enough were put into this one."""
        if self._left <= 0:
            self._here, self._left = (here + 1) % len(self.stores), _TURN

    def _put(self, put: c.Put | c.Import, here: int) -> list[Part] | None:
        """Return which store gets a put; None if several have a say."""
        having = {(job.topic, job.key) for job in new_jobs(put) if job.key is not None}
        deciding = {self.ids.of_key(*name) for name in having}
        if put.nonce is not None:
            deciding.add(self.ids.of_nonce(put.nonce))
        if len(deciding) > 1:
            return None
        if not deciding:
            self._left -= len(put.jobs)
        store = deciding.pop() if deciding else here
        return [(store, inner_put(self.ids, put, store))]

    # ---- looking ----------------------------------------------------------------------------------------------------

    def ask(self, query: Query[R]) -> R:
        """Return the answer to a query; see the contract."""
        if type(query) not in ANSWERS:
            raise TypeError(f"a store answers queries, not {type(query).__name__}")
        return ANSWERS[type(query)](self, query)  # type: ignore[no-any-return]  # what the class of the query says

    def ask_each(self, query: Query[R]) -> list[R]:
        """Return what each store answers, in order. Raises the first one's error, once all have ended."""
        return self.ask_some(dict.fromkeys(range(len(self.stores)), query))

    def ask_present(self, query: Query[R]) -> list[R]:
        """Return what those stores answer that do. Raises the first one's error where none does."""
        answers = self.try_each(lambda store: store.ask(query))
        return [answer for answer in answers if not isinstance(answer, StoreError)]

    def ask_some(self, queries: Mapping[int, Query[R]]) -> list[R]:
        """Return what some stores answer, each to a query of its own. Raises the first one's error."""
        return self._all([partial(self.stores[place].ask, query) for place, query in queries.items()])

    def died(self, topics: Collection[str]) -> list[int]:
        """Return the ids of jobs that died with a lost lease: each store tells of its own."""
        found = self.each(lambda store: store.died(topics))
        return [id for place, ids in enumerate(found) for id in self.ids.all_outer(place, ids)]

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long, or if resumed."""
        return self.stores[0].quiet(topic, seconds)

    # ---- life -------------------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return what there is to know of the first store's place, and how many stores there are."""
        return {**self.stores[0].about(), "stores": len(self.stores)}

    def vacuum(self, pages: int) -> int:
        """Return how many pages were given back."""
        return sum(store.vacuum(pages) for store in self.stores)

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong in any of the stores, one after the other."""
        found: dict[tuple[str, bool], Finding] = {}
        for place, store in enumerate(self.stores):
            for finding in store.verify(repair=repair):
                ids = [self.ids.outer(place, one) if isinstance(one, int) else one for one in finding.examples]
                kind = finding.what, finding.repaired
                known = found.get(kind, finding._replace(number=0, examples=()))
                examples = (*known.examples, *ids)[:EXAMPLES]
                found[kind] = known._replace(number=known.number + finding.number, examples=examples)
        return list(found.values())

    def close(self) -> None:
        """Close all stores."""
        for store in self.stores:
            store.close()
        self._together.close()

    def after_fork(self) -> None:
        """Begin anew in a forked child."""
        self._together.after_fork()
        self._begin()


def _is_plain(put: c.Put) -> bool:
    """Whether any store may have it."""
    return put.nonce is None and all(job.key is None for job in put.jobs)
