"""The spool: a local file in which puts wait while their store is away, with the outcome of each.

The file is a store of jobs itself. So a put into it is durable, may come from any thread and process, and survives
forks, signals and kills. Each job that was put is a job of one topic there. Its body is a line of JSON, which says how
the job was put, and then the job's own body. The jobs of one `put_many` share a nonce.

delayed        waits to be forwarded; the ids give the order
running        is being forwarded: the claim keeps other processes from doing the same, and from overtaking
done           is in the store; the put's nonce leads to its id there
dead           was refused; `last_error` says why
cancelled      was cancelled before it was forwarded
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, NamedTuple

from .._errors import BadJob, BadOption, StoreError, StoreFull
from .._forks import renew_after_fork
from ..clock import Clock
from ..jobs import commands as c
from ..jobs.job import FIELDS, Counts, Job, NewJob, State
from ..jobs.queries import CountJobs, Filter, GetJob, ListJobs
from ..stores.open import open as open_store
from ..stores.sqlite.store import SqliteStore

TOPIC: Final = "pywheel.spool"
_FORWARDER: Final = "forwarder"  # the note that names the forwarding thread
_LEASE: Final = 15_000  # ms until another process forwards after a kill; longer than a server's time limit
_TRIES: Final = 10  # for a put at which the store fails without being away
_TERMS: Final = c.ClaimPolicy(_LEASE, 2**31)
_PAGE: Final = 100
_ROWS: Final = 500  # in one transaction of the store, or one `put_many`
_BYTES: Final = 4 << 20  # of their bodies
_LOOKS: Final = 5  # at the waiting puts, while others change them
_ANY: Final = 2**61
_SPARE: Final = 16 << 20  # bytes that must be free beside the file's size: forwarding writes as well
_PURGE: Final = 200  # jobs deleted at a time
_ROUND: Final = 600.0  # seconds between checks for jobs to delete
_FOREIGN: Final = {"nonce": None, "fingerprint": None, "tried": False, "place": 0, "of": 1, "parent": None}
"""How a row was put that somebody else wrote into the file."""


class Waiting(NamedTuple):
    """A put that was claimed to be forwarded."""

    put: c.Put
    rows: list[Job]


class Spool:
    """A file of puts. Any thread may call any method; each raises StoreError if the file cannot be used."""

    def __init__(self, url: str, *, clock: Clock | None = None, create: bool = True) -> None:
        if not isinstance(url, str):
            raise TypeError(
                f"spool must be the address of a file, such as 'sqlite:///spool.db', not {type(url).__name__}"
            )
        store = open_store(url, clock=clock, create=create)
        if not isinstance(store, SqliteStore):
            store.close()
            raise BadOption(f"{url!r:.80} cannot be a spool, as it must outlive the process: give sqlite:///spool.db")
        self.file = store
        self._path = Path(store.path)
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._look_at = 0.0
        self._token = token_hex(8)
        self._after_fork()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Begin without the forwarder's lease: at first, and in a forked child, as it is the parent's."""
        self._forwards_until = 0.0

    # ---- puts -------------------------------------------------------------------------------------------------------

    def add(self, puts: Sequence[c.Put], tried: Collection[str | None] = ()) -> list[Any]:
        """Keep puts durably, in order; return for each the ids of its jobs, which are negative, or why it was refused.

        Puts with the nonces `tried` were sent to the store and may have arrived, although no answer came. StoreFull
        even while there is room, if there is too little to forward the puts later: forwarding writes as well.
        """
        self._refuse_to_fill()
        now = self.file.clock.wall()
        outcomes = self.file.apply([c.Put(tuple(_rows(put, now, tried=put.nonce in tried))) for put in puts])
        return [[-id for id in outcome] if isinstance(outcome, list) else outcome for outcome in outcomes]

    def _refuse_to_fill(self) -> None:
        try:
            needed = self._path.stat().st_size + _SPARE
            free = shutil.disk_usage(self._path.parent).free
        except OSError:  # opening the file raises the error
            return
        if free < needed:
            raise StoreFull(
                f"{self._path}: no room on the disk: {free >> 20} MB are free, and what waits needs {needed >> 20} MB "
                "to be forwarded: free some, what was put before is intact"
            )

    def waiting(self) -> bool:
        """Whether a put waits, or is being forwarded."""
        counts = self.counts()  # of one moment: between two reads a lease may end, and its job be in neither
        return counts.delayed + counts.running > 0

    def find(self, id: int) -> Job | None:
        """Return the spool's row of a job, by its negative id. `spooled_job` turns it into the job."""
        row = self.file.ask(GetJob(-id))
        return None if row is None or row.topic != TOPIC else row

    def place(self, row: Job) -> tuple[str | None, int, int]:
        """Return the nonce of the put that a row belongs to, the job's place in it, and how many jobs the put has.

        The nonce is None if somebody else wrote the row.
        """
        told = _told(row)
        return told["nonce"], told["place"], told["of"]

    def may_have_arrived(self, row: Job) -> bool:
        """Whether a job was sent to the store, by its put or from here."""
        return row.claims > 0 or _told(row)["tried"]

    def cancel(self, id: int) -> bool:
        """Cancel a job that was never sent; return whether it was cancelled."""
        row = self.find(id)
        if row is None or self.may_have_arrived(row) or _told(row)["of"] > 1:
            return False
        claim = c.Claim(TOPIC, (-id,), _TERMS, self._name, 1)
        # If this is the first claim ever, the job was never sent, and is not being sent now. All is one transaction.
        claimed, _, cancelled = self.file.apply([claim, c.Release(-id, 1), c.Cancel(-id)])
        if not cancelled:
            self._give_back(claimed.jobs)
        return bool(cancelled)

    def retry(self, id: int) -> bool:
        """Send a refused or cancelled job again, with its whole `put_many`; return whether there was one."""
        row = self._ended(id)
        if row is None:
            return False
        _, place, of = self.place(row)
        first = row.id - place
        return any(self.file.apply([c.Retry(number) for number in range(first, first + of)]))

    def forget(self, id: int) -> bool:
        """Delete a refused or cancelled job; return whether there was one."""
        row = self._ended(id)
        return row is not None and bool(self.file.apply([c.Delete(row.id)])[0])

    def _ended(self, id: int) -> Job | None:
        """Return a refused or cancelled job; None if it is neither."""
        row = self.find(id)
        return row if row is not None and row.state in (State.DEAD, State.CANCELLED) else None

    # ---- forwarding -------------------------------------------------------------------------------------------------

    def take(self) -> list[Waiting] | None:
        """Claim the oldest waiting puts, some hundred jobs; [] if none waits, None if others forward or change them.

        One process forwards at a time. The requests of a killed one must be over before the next begins, so that no put
        overtakes another.
        """
        for _ in range(_LOOKS):
            if not self.waiting():
                self._stop_forwarding()
                return []
            if not self._may_forward() or self._forwarding():
                return None
            puts = list(self._oldest())
            rows = [row for put in puts for row in put]
            if not rows:
                return []
            ids = tuple(row.id for row in rows)
            # A put that failed, or whose lease ended, has a due time: it lies ahead after the clock was set back.
            edits = [c.Edit(row.id, 0) for row in rows if row.due]
            claimed = self.file.apply([*edits, c.Claim(TOPIC, ids, _TERMS, self._name, len(ids), len(ids), _ANY)])[-1]
            mine = {job.id: job for job in claimed.jobs}
            if len(mine) < len(ids):  # a job was cancelled meanwhile
                self._give_back(claimed.jobs)
            elif waiting := self._refuse_broken([_waiting([mine[row.id] for row in put]) for put in puts]):
                return waiting
        return None

    def _refuse_broken(self, batch: list[Waiting]) -> list[Waiting]:
        """Return the complete puts. Others, after somebody changed the file, are refused rather than sent."""
        broken: list[tuple[Waiting, BadJob]] = []
        for waiting in batch:
            nonce, _, of = self.place(waiting.rows[0])
            if nonce is None:
                broken.append((waiting, BadJob("it was not put by a queue with this spool: delete it")))
            elif of != len(waiting.rows):
                refusal = "it was put with others, all or none, and they are not here: put it anew"
                broken.append((waiting, BadJob(refusal)))
        if broken:
            refused, refusals = zip(*broken, strict=True)
            self.settle(refused, refusals)
            return [waiting for waiting in batch if waiting not in refused]
        return batch

    def settle(self, batch: Sequence[Waiting], outcomes: Sequence[Any]) -> None:
        """Record the outcomes of puts that were sent: arrived, or refused and why."""
        ends = zip(batch, outcomes, strict=True)
        self.file.apply([_end(row, outcome) for waiting, outcome in ends for row in waiting.rows])

    def give_back(self, batch: Sequence[Waiting]) -> None:
        """Let puts wait again in their old places, because the store is away."""
        self._give_back([row for waiting in batch for row in waiting.rows])
        self._stop_forwarding()

    def failed(self, waiting: Waiting, error: BaseException) -> bool:
        """Record that the store failed at a put without being away; return whether that was the last try: refused."""
        last = waiting.rows[0].attempt >= _TRIES
        delay = None if last else 0
        self.file.apply([c.Nack(row.id, row.claims, delay, _text(error)) for row in waiting.rows])
        return last

    def prune(self) -> None:
        """Delete jobs that were forwarded or cancelled long ago: now and then, a step at a time."""
        if time.monotonic() >= self._look_at:
            purges = [c.Purge(state, c.NONCES_KEPT, TOPIC, _PURGE) for state in (State.DONE, State.CANCELLED)]
            more = max(self.file.apply(purges)) >= _PURGE
            self._look_at = time.monotonic() + (0.0 if more else _ROUND)

    def _oldest(self) -> Iterator[list[Job]]:
        """Yield the rows of the oldest puts, put by put, up to a limit. The first put comes whatever its size."""
        put: list[Job] = []
        rows = size = 0
        for row in self.rows(State.DELAYED):
            nonce, place, _ = self.place(row)
            if put and (place == 0 or nonce != self.place(put[0])[0]):  # a put that was repeated has the same nonce
                yield put
                rows, put = rows + len(put), []
                if rows >= _ROWS or size >= _BYTES:
                    return
            put.append(row)
            size += len(row.body)
        if put:
            yield put

    def _may_forward(self) -> bool:
        """Take the forwarder's lease for this thread, or renew it; return False if another thread has it."""
        me = f"{self._token}:{os.getpid()}:{threading.get_ident()}".encode()
        asked, latest = time.monotonic(), self.file.clock.wall() + _LEASE

        def leased(to: bytes, *, absent: bool = False) -> c.SetNote:
            return c.SetNote(_FORWARDER, b"%d %b" % (latest, to), _LEASE, absent=absent)

        [before] = self.file.apply([leased(me, absent=True)])
        if before is not None:
            end, _, holder = before.partition(b" ")
            if holder != me:
                if int(end) > latest:  # it began before the clock was set back: it ends as if it began now
                    self.file.apply([leased(holder)])
                return False
            if asked < self._forwards_until:  # otherwise another thread may have it by now
                self.file.apply([leased(me)])
        self._forwards_until = asked + _LEASE / 1000
        return True

    def _forwarding(self) -> bool:
        """Whether puts are being forwarded. Claims from before the clock was set back end as if they were made now."""
        latest = self.file.clock.wall() + _LEASE
        running = self.file.ask(ListJobs(Filter(TOPIC, State.RUNNING), 0, 1))
        if any((row.lease_until or 0) > latest for row in running):
            self.file.apply([c.Touch(row.id, row.claims, _LEASE) for row in self.rows(State.RUNNING)])
        return bool(running)

    def _stop_forwarding(self) -> None:
        """Give the forwarder's lease up, so that another process can forward at once."""
        if time.monotonic() < self._forwards_until:
            self._forwards_until = 0.0
            self.file.apply([c.SetNote(_FORWARDER, None)])

    def _give_back(self, rows: Sequence[Job]) -> None:
        self.file.apply([c.Release(row.id, row.claims) for row in rows])

    # ---- looking ----------------------------------------------------------------------------------------------------

    def rows(self, state: State) -> Iterator[Job]:
        """Yield the spool's rows in a state, in order."""
        after = 0
        while page := self.file.ask(ListJobs(Filter(TOPIC, state), after, _PAGE)):
            yield from page
            after = page[-1].id

    def counts(self) -> Counts:
        """Return how many jobs wait, are being forwarded, were forwarded, refused or cancelled: as counts of states."""
        return self.file.ask(CountJobs()).get(TOPIC, Counts())

    def close(self) -> None:
        """Close the file. Idempotent."""
        with suppress(StoreError):
            self._stop_forwarding()
        self.file.close()


def spooled_job(row: Job) -> Job:
    """Return the job of a row: with its negative id, delayed until it is forwarded, dead if it was refused."""
    told, body = _read(row)
    state = State.DELAYED if row.state is State.RUNNING else row.state
    kept = {field.name: told[field.name] for field in FIELDS if told[field.name] is not None}
    return Job(-row.id, told["topic"], body, told["due"], row.created, state, last_error=row.last_error, **kept)


def _rows(put: c.Put, now: int, *, tried: bool) -> Iterator[NewJob]:
    """Yield the jobs of a put as the spool keeps them. Delays count from now."""
    for place, job in enumerate(put.jobs):
        told: dict[str, Any] = job._asdict()
        del told["body"], told["delay"]
        if job.delay is not None:
            told["due"] = now + job.delay
        if job.headers is not None:
            told["headers"] = dict(job.headers)
        told |= {"nonce": put.nonce, "fingerprint": put.fingerprint, "tried": tried}
        told |= {"place": place, "of": len(put.jobs)}
        # Not a header: the job's own headers may be as long as headers can be, and are longer in JSON.
        yield NewJob(TOPIC, b"%b\n%b" % (json.dumps(told, separators=(",", ":")).encode(), job.body), 0)


def _told(row: Job) -> Any:
    return _read(row)[0]


def _read(row: Job) -> tuple[Any, bytes]:
    """Return how a job was put, and its body. A row that somebody else wrote is its own job."""
    line, _, body = row.body.partition(b"\n")
    with suppress(ValueError, RecursionError):
        told = json.loads(line)
        if isinstance(told, dict) and told.keys() >= _FOREIGN.keys():
            return told, body
    return {**row._asdict(), **_FOREIGN}, row.body


def _waiting(rows: list[Job]) -> Waiting:
    read = list(map(_read, rows))
    told, _ = read[0]
    return Waiting(c.Put(tuple(starmap(_new_job, read)), told["nonce"], told["fingerprint"]), rows)


def _new_job(told: Any, body: bytes) -> NewJob:
    """Return a job as it was put."""
    parent = told["parent"] and tuple(told["parent"])
    return NewJob(**{**{name: told[name] for name in NewJob._fields if name in told}, "body": body, "parent": parent})


def _end(row: Job, outcome: Any) -> c.Ack | c.Nack:
    refused = isinstance(outcome, BaseException)
    return c.Nack(row.id, row.claims, None, _text(outcome)) if refused else c.Ack(row.id, row.claims)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
