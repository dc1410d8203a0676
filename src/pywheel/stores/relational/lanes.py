"""A store's connections for writing, and which commands may wait for a lock on which of them.

A put in a caller's transaction holds its key until that ends. A store therefore writes on five connections, each with
its own group commit: one for claims and acks, one for claims beside many acks, one for plain puts, one for commands
that may have to wait, and one for commands that were found to wait. Puts of handlers share commits with each other,
and wait for no step of the worker. A statement waits for a lock only briefly. A command that met a lock is tried again
on the fifth connection; others that need the same lock go there without a try on the fourth.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from functools import partial
from itertools import count
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Final

from ..._errors import OutcomeUnknown, StoreAway, StoreBusy, StoreError, StoreReadOnly
from ...jobs import commands as c
from ..contract import Locked, apart_if_full
from ..group_commit import Commit, GroupCommit
from ..sql.engine import apply
from ..sql.put import NOT_FREE, plain, row_of
from ..sql.settle import SETTLING
from ..sql.statement import drive
from ..sql.transaction import Taken
from .session import Conflict, MetLock, OwnSession

if TYPE_CHECKING:
    from .store import RelationalStore

TRIES: Final = 12
"""How often a transaction begins anew after conflicts with others."""
_MAY_WAIT: Final = frozenset({c.Import, c.Cancel, c.Edit, c.Delete, c.Retry, c.Rewrite, c.Pause})
_MOST: Final = 10_000  # keys and jobs that are remembered
_GATHER: Final = 0.5  # part of a commit's time for which one waits for more commands to share it
_MOST_IDS: Final = 8_192  # taken ahead at once: each time the server commits
_MOST_BEHIND: Final = 1_000_000  # ids by which a server that took over may be behind
_MANY: Final = 200  # ends of claims that take longer than a commit


class Lane:
    """A connection that writes. Threads share its transactions, whose last trip commits."""

    def __init__(self, store: RelationalStore, held: Held, spared: float = 0.0) -> None:
        self.store: Any = store
        self._held = held
        self.spared = spared
        """The seconds for which a command that met a lock is not tried again here, as others queue behind it."""
        self._seconds: float = store._seconds
        self.commits = GroupCommit(self._transact, _separate, self._seconds, _GATHER)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Drop the connection, and take a new identity towards the server."""
        self.writer: Any = None
        self.client, self.requests = token_bytes(16), count(1)
        """A client and a number: the name of a transaction where the database has none itself."""

    def writing(self, until: float) -> Any:
        """Return the connection. Only the thread that commits for all uses it."""
        connection = self.writer
        if connection is not None and not connection.ready:  # it broke, or an interrupt came in the middle of its use
            self.writer = None
            connection.end()
            connection = None
            self.store.ids.forget()
        if connection is None:
            connection = self.store.connected(until)
            with self.store.translated:
                self.store._begin_writing(connection, self)
            self.writer = connection
        connection.until = until
        return connection

    def tried(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Return the outcomes of commands here, without waiting for a lock."""
        return apart_if_full(self._tried, commands, self._tried(commands))

    def _tried(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        try:
            return self.commits.apply(commands)
        except (Locked, StoreError) as error:
            if len(commands) == 1 or isinstance(error, StoreError):
                return [error] * len(commands)
        return [outcome for command in commands for outcome in self._tried((command,))]

    def _transact(self, commands: Sequence[c.Command[Any]], until: float, commit: Commit | None) -> list[Any]:
        self.store._open()
        if self.spared and self._held.lately(commands, self.spared):
            raise Locked(self._seconds)
        try:
            outcomes = self._begun_anew(commands, until, commit)
        except MetLock as error:
            if commit is None:  # else any of several callers' commands may have met it
                self._held.met(commands)
            raise Locked(self._seconds) from error
        except StoreReadOnly:  # no primary any longer, though it lives: the address may lead to another server
            self.store.ids.forget()
            if self.writer is not None:
                self.writer.end()
            raise
        self._held.free(commands, outcomes)
        return outcomes

    def _begun_anew(
        self, commands: Sequence[c.Command[Any]], until: float, commit: Commit | None, *, eager: bool = True
    ) -> list[Any]:
        """Apply commands in a transaction; in another one after a conflict, or if the connection broke before it."""
        broke = False
        for attempt in range(TRIES):
            session: OwnSession = self.store.own(self, until)
            try:
                return self._run(session, commands, until, commit, eager=eager)
            except (Conflict, Taken) as error:
                if attempt:
                    self.store.ids.forget()
                last = attempt + 1 == TRIES or time.monotonic() >= until
                if isinstance(error, Taken):
                    if last:
                        raise StoreBusy(str(error)) from error
                elif last or isinstance(error, MetLock):
                    raise
                time.sleep(0.002 * attempt)
            except StoreAway as error:
                self.store.ids.forget()
                if broke or isinstance(error, OutcomeUnknown) or time.monotonic() >= until:
                    raise
                broke = True
            finally:
                session.abandon()
        raise AssertionError

    def _run(
        self,
        session: OwnSession,
        commands: Sequence[c.Command[Any]],
        until: float,
        commit: Commit | None,
        *,
        eager: bool,
    ) -> list[Any]:
        self.writing(until)  # a new connection comes before names and numbers are used
        take = partial(self.store.ids.many, until=until)
        tx = self.store.transaction(take, eager=eager)
        commit = commit or Commit()
        found = plain(tx, commands, take)
        outcomes: list[Any]
        if found is not None:
            insert, outcomes = found
            commit.stored, counts = None, True
            stored = session.put(insert, tx.topics)
            if stored is not None:
                there = {*stored}
                outcomes = [some if there.issuperset(some) else NOT_FREE for some in outcomes]
        else:
            sent = time.monotonic()
            outcomes = drive(session.send, apply(tx, commands))
            if tx.seen is not None:
                self.store.heard(tx.seen, sent, time.monotonic())
            counted = self.store.dialect.counted(tx.tally)
            commit.outcomes, commit.stored, counts = outcomes, None, bool(counted)
            session.commit(counted, row_of(tx.tally.new[0]) if tx.tally.new else None)
        commit.outcomes, commit.stored = outcomes, True
        tx.committed()
        if found is None:
            self.store.note_leases(commands, outcomes, tx.changes)
        self.store.tell(tx.changes)
        if counts:
            self.store.count()
        if NOT_FREE in outcomes:
            for place, outcome in enumerate(outcomes):
                if outcome is NOT_FREE:
                    outcomes[place] = self._put_by_look(commands[place])
        return outcomes

    def _put_by_look(self, command: c.Command[Any]) -> Any:
        """Put a job whose key is taken, with a look at the holder of the key."""
        try:
            [outcome] = self._begun_anew([command], time.monotonic() + self._seconds, None, eager=False)
        except StoreError as error:  # the commands of others are stored
            if not isinstance(error, MetLock):
                return error
            self._held.met((command,))
            return Locked(self._seconds)
        return outcome


def _separate(error: BaseException) -> bool:
    """Return whether one caller's commands may have caused an error."""
    return isinstance(error, Exception) and not isinstance(error, StoreError)


class Held:
    """Keys and jobs found locked lately. Commands that need them go to wait at once, and block nobody behind them."""

    def __init__(self) -> None:
        self._met: dict[Hashable, float] = {}  # the monotonic time of each

    def met(self, commands: Sequence[c.Command[Any]]) -> None:
        """Note that these commands met a lock."""
        if len(self._met) > _MOST:
            self._met.clear()
        self._met.update(dict.fromkeys(_wants(commands), time.monotonic()))

    def free(self, commands: Sequence[c.Command[Any]], outcomes: Sequence[Any]) -> None:
        """Note which of these commands met no lock."""
        if self._met:
            for command, outcome in zip(commands, outcomes, strict=True):
                if not isinstance(outcome, Locked):
                    for want in _wants((command,)):
                        self._met.pop(want, None)

    def lately(self, commands: Sequence[c.Command[Any]], seconds: float) -> bool:
        """Return whether one of these commands needs a key or job found locked within `seconds`."""
        if not self._met:
            return False
        since = time.monotonic() - seconds
        return any(self._met.get(want, 0.0) > since for want in _wants(commands))


def _wants(commands: Sequence[c.Command[Any]]) -> Iterator[Hashable]:
    """Yield the keys and jobs that others may hold."""
    for command in commands:
        if type(command) is c.Put:
            yield from ((job.topic, job.key) for job in command.jobs if job.key is not None)
        elif isinstance(command, c.Cancel | c.Edit | c.Retry | c.Delete):
            yield command.ref


def may_wait(commands: Sequence[c.Command[Any]], topics: Container[str]) -> bool:
    """Return whether a command takes a key, adds a topic or priority, or changes a job that others may hold."""
    for command in commands:
        if type(command) is c.Put:
            if command.nonce is not None:
                return True
            for job in command.jobs:
                if job.key is not None or job.priority or job.topic not in topics:
                    return True
        elif type(command) in _MAY_WAIT:
            return True
    return False


def claims_beside(commands: Sequence[c.Command[Any]]) -> int | None:
    """Return the place of the first claim, if all claims can run beside the ends before them; else None.

    None as well if one commit is enough. Claims under a limit depend on the ends before them.
    """
    if len(commands) <= _MANY:
        return None
    first = next((place for place, command in enumerate(commands) if type(command) is c.Claim), 0)
    if first < _MANY or any(type(command) not in SETTLING for command in commands[:first]):
        return None
    claims = commands[first:]
    return first if all(type(one) is c.Claim and one.policy.limits is None for one in claims) else None


class Ids:
    """Ids that belong to this process, in order, taken from the store before they are used. `draw` returns new ids.

    A put that is sent twice is stored once. All lanes share the ids: of jobs due at one time, those that a thread has
    put first come first.
    """

    def __init__(self, draw: Callable[[int, float], Sequence[int]]) -> None:
        self._draw = draw
        self._lock = threading.RLock()
        self._left: deque[int] = deque()
        self._forgotten = False  # the ids that are left may be others' by now
        self._last = 0  # the last id that was drawn
        self._block = 1  # blocks grow with use: a process that puts one job takes one id

    def many(self, count: int, until: float) -> list[int]:
        """Return `count` ids. StoreBusy if another thread waits for ids until then; StoreAway."""
        with self._lock:
            if self._forgotten:
                self._forgotten = False
                self._left.clear()
            while len(self._left) < count:
                if time.monotonic() >= until:
                    raise StoreBusy("others waited for new ids all the time: try again")
                taken = max(count - len(self._left), self._block)
                drawn = self._draw(taken, until)
                behind = self._last - drawn[-1]
                if 0 < behind <= _MOST_BEHIND:  # a server took over that was behind: these ids were given out before
                    self._draw(behind, until)
                elif behind > 0:  # it is another database
                    self._last = 0
                self._left.extend([id for id in drawn if id > self._last])
                self._last = max(self._last, drawn[-1])
                self._block = min(2 * taken, _MOST_IDS)
            return [self._left.popleft() for _ in range(count)]

    def forget(self) -> None:
        """Drop the ids that are left: others may have them if a server took over that was behind. It waits for none."""
        self._forgotten = True
