"""A store with a spool in front: while it is away, puts go to a local file, and are forwarded once it is back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from .._errors import BadOption, StoreAway, StoreBusy, StoreError
from ..clock import Clock
from ..events import Event, JobsSpooled
from ..jobs import lifecycle
from ..jobs.commands import Cancel, Change, Command, Delete, Edit, Put, Ref, Retry
from ..jobs.job import Attempt, Job, State
from ..jobs.queries import GetHistories, GetJob, GetStates, Query
from ..stores.checks import sound
from ..stores.contract import Store, intact
from ..stores.front import Front
from .circuit_breaker import AWAY, CircuitBreaker, new_nonce
from .forwarder import Forwarder
from .spool import Spool, spooled_job

R = TypeVar("R")
_NAMED: Final = (Cancel, Edit, Retry, Delete)


class SpooledStore(Front):
    """Puts succeed while the spool's disk has room. Other calls need the store, and raise StoreAway without it.

    Each put has a nonce, so a put that may have arrived is sent again, and happens once. A spooled job has a negative
    id. The id names the job here as long as the spool knows it: for 31 days after it was forwarded. Lists and counts
    come from the store, and do not include spooled jobs.
    """

    def __init__(
        self,
        url: str | Store,
        opener: Callable[[], Store],
        spool: str,
        clock: Clock | None,
        tell: Callable[[Event], None],
    ) -> None:
        self._spool = Spool(spool, clock=clock)
        self._secret = url.secret_url if isinstance(url, Store) else str(url)
        self._breaker = CircuitBreaker(self._secret, opener, tell)
        self._tell = tell
        try:
            try:
                self._breaker.opened()
            except AWAY as error:
                self._breaker.failed(error)
            self._refuse_itself()
        except BaseException:
            self._breaker.close()
            self._spool.close()
            raise
        self._forwarder = Forwarder(self._breaker, self._spool, tell)
        self._forwarder.start()

    def _refuse_itself(self) -> None:
        if self._breaker.store is not None and self._breaker.store.url == self._spool.file.url:
            raise BadOption(f"{self._spool.file.path} cannot be the spool of itself: give the spool a file of its own")

    # ---- what a store says of itself --------------------------------------------------------------------------------

    @property
    def url(self) -> str:  # type: ignore[override]
        """The store's address; without its secrets until the store was opened."""
        return self._breaker.name if self._breaker.store is None else self._breaker.store.url

    @property
    def secret_url(self) -> str:
        """The address with its password, never to be shown."""
        return self._secret if self._breaker.store is None else self._breaker.store.secret_url

    def _described(self) -> Store:
        """Return the store; until it was opened the spool's store, whose clock is the local one."""
        return self._breaker.store or self._spool.file

    # ---- changes ----------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands; see the contract. Puts that the store cannot take now go to the spool.

        The commands for the store and those for the spool are then two transactions.
        """
        return sound(commands, self._apply)

    def _apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        self._forwarder.start()
        outcomes: dict[int, Any] = {}
        direct: dict[int, Command[Any]] = {}
        later: dict[int, Put] = {}
        for place, command in enumerate(commands):
            if isinstance(command, Put):
                put = command if command.nonce is not None else Put(command.jobs, new_nonce())
                (later if self._goes_behind(put) else direct)[place] = put
            elif isinstance(command, _NAMED) and not (type(command.ref) is int and command.ref >= 0):
                try:
                    meant = self._meant(command)
                except StoreError as error:
                    meant = error
                (direct if isinstance(meant, _NAMED) else outcomes)[place] = meant
            else:
                direct[place] = command
        tried: list[str | None] = []
        if direct:
            sent = False
            try:
                store = self._breaker.there()
                sent = True
                outcomes.update(zip(direct, self._sent(store, list(direct.values())), strict=True))
            except StoreError as error:
                puts = {place: command for place, command in direct.items() if isinstance(command, Put)}
                if len(direct) == len(commands) and not (puts and isinstance(error, AWAY)):
                    raise
                outcomes.update(dict.fromkeys(direct, error))
                if isinstance(error, AWAY):
                    later |= puts
                    tried = [put.nonce for put in puts.values()] if sent else []
        if later:
            self._keep(later, tried, outcomes)
        return [outcomes[place] for place in range(len(commands))]

    def apply_within(self, connection: object, command: Command[R]) -> R:
        """Apply a command in the caller's own transaction, never spooled.

        StoreAway if its job, or an older put of one of its keys, may wait in the spool.
        """
        direct: Command[R] = self._past_the_spool(command)
        return (self._breaker.store or self._breaker.there()).apply_within(connection, direct)

    def _past_the_spool(self, command: Any) -> Any:
        """Return a command with its reference in the store. StoreAway while that is not known."""
        if isinstance(command, Put):
            if _keyed(command) and self._spool.waiting():
                raise self._unknown("whether an older put of this key is among them", command.jobs[0].topic)
        elif isinstance(command.ref, tuple):
            if self._spool.waiting():
                raise self._unknown("whether one of them has this key", command.ref)
        elif command.ref < 0 and (row := self._spool.find(command.ref)) is not None:
            if row.state is not State.DONE:
                raise self._unknown("what becomes of it", command.ref)
            return replace(command, ref=self._forwarded(row) or command.ref)
        return command

    def _sent(self, store: Store, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands in the store. If the store turns out to be away, record it: the commands may have happened."""
        try:
            return intact(store.apply(commands))
        except AWAY as error:
            self._breaker.failed(error)
            self._forwarder.wake()
            raise

    def _goes_behind(self, put: Put) -> bool:
        """Whether a put goes to the spool: its store is away, or a put with the same key may wait there.

        The order of puts without keys does not matter: jobs are ordered by their due times.
        """
        return self._breaker.away is not None or (_keyed(put) and self._spool.waiting())

    def _keep(self, puts: dict[int, Put], tried: Sequence[str | None], outcomes: dict[int, Any]) -> None:
        """Put into the spool, in order. Puts with the nonces `tried` may have arrived in the store."""
        puts = dict(sorted(puts.items()))
        try:
            outcomes.update(zip(puts, self._spool.add(list(puts.values()), tried), strict=True))
        except StoreError as error:
            outcomes.update(dict.fromkeys(puts, error))
            return
        self._forwarder.wake()
        kept = [put for place, put in puts.items() if isinstance(outcomes[place], list)]
        for topic, jobs in Counter(job.topic for put in kept for job in put.jobs).items():
            self._tell(JobsSpooled(topic, jobs))

    # ---- by reference -----------------------------------------------------------------------------------------------

    def _meant(self, command: Any) -> Any:
        """Return the outcome of a command on one job, or the command for the store. StoreAway while it is unknown."""
        if isinstance(command.ref, tuple):
            if self._spool.waiting():
                raise self._unknown("whether one of them has this key", command.ref)
            return command
        row = self._spool.find(command.ref)
        if row is not None and row.state is not State.DONE:
            return self._spooled(row, command)
        id = None if row is None else self._forwarded(row)
        return Change.NOT_FOUND if id is None else replace(command, ref=id)

    def _spooled(self, row: Job, command: Any) -> Change:
        """Return the outcome of a command on a job in the spool. StoreAway if the store may have the job by now."""
        job = spooled_job(row)
        change: Callable[[int], bool] | None = None  # the spool's own method, if it has one
        if isinstance(command, Retry):
            outcome, change = lifecycle.may_retry(job.state), self._spool.retry
        elif isinstance(command, Delete):
            outcome, change = lifecycle.may_delete(job.state), self._spool.forget
        else:
            outcome = lifecycle.may_move(job.state, (job.due, job.claims), command.expect)
            if isinstance(command, Cancel):
                change = self._spool.cancel
        sent = outcome is Change.CHANGED and self._spool.may_have_arrived(row)
        if sent or (outcome and (change is None or not change(job.id))):
            raise self._unknown("what has become of it", job.id)
        if outcome and isinstance(command, Retry):
            self._forwarder.wake()
        return outcome

    def _unknown(self, what: str, ref: Ref | str) -> StoreAway:
        return StoreAway(f"jobs wait in {self._spool.file.path}, and {what} is not known yet: try again ({ref!r:.80})")

    def _forwarded(self, row: Job) -> int | None:
        """Return the id in the store of a forwarded job. A put with the same nonce and no jobs returns the ids."""
        nonce, place, of = self._spool.place(row)
        [ids] = self._sent(self._breaker.there(), [Put((), nonce)])
        if isinstance(ids, BaseException):
            raise ids
        return ids[place] if len(ids) == of else None  # otherwise the store has deleted the nonce

    # ---- looking ----------------------------------------------------------------------------------------------------

    def ask(self, query: Query[R]) -> R:
        """Return the answer to a query. A spooled job is shown as it was put."""
        answer: Any
        if isinstance(query, GetJob) and isinstance(query.ref, int) and query.ref < 0:
            answer = self._job(query.ref)
        elif isinstance(query, GetHistories) and min(query.ids, default=0) < 0:
            answer = [self._history(id) for id in query.ids]
        elif isinstance(query, GetStates) and min(query.ids, default=0) < 0:
            jobs = [self.ask(GetJob(id)) for id in query.ids]
            answer = [None if job is None else job.state for job in jobs]
        else:
            answer = self._there().ask(query)
        return answer  # type: ignore[no-any-return]  # what the class of the query says

    def _job(self, ref: int) -> Job | None:
        row = self._spool.find(ref)
        if row is None or row.state is not State.DONE:
            return None if row is None else spooled_job(row)
        id = self._forwarded(row)
        return None if id is None else self._there().ask(GetJob(id))

    def _history(self, id: int) -> list[Attempt]:
        if id < 0:
            job = self._job(id)
            id = id if job is None else job.id  # the id in the store if the job was forwarded
            if job is not None and id < 0 and job.state is State.DEAD:  # refused: as its last forwarding ended
                return self._spool.file.ask(GetHistories([-id]))[0][-1:]
        return self._there().ask(GetHistories([id]))[0] if id >= 0 else []

    def _there(self) -> Store:
        """Return the store for reading. A busy one can be read."""
        store = self._breaker.store
        return store if store is not None and isinstance(self._breaker.away, StoreBusy) else self._breaker.there()

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop forwarding; close the store and the spool. Idempotent. The next process forwards the waiting puts."""
        self._breaker.close()
        self._forwarder.stop()
        self._spool.close()

    def _close_beside(self, kept: SpooledStore) -> None:
        self._forwarder.stop()  # first: it opens the store if nobody has yet
        if self._breaker.store is not kept._breaker.store:
            self._breaker.close()
        self._spool.close()


def _keyed(put: Put) -> bool:
    return any(job.key is not None for job in put.jobs)
