"""A store in front of another, in which bodies lie encrypted: who asks this one puts and looks at plain ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .._errors import BadBody, PywheelError
from ..clock import Clock
from ..jobs.bodies import is_encrypted
from ..jobs.commands import Command, Import, Put, Ref
from ..jobs.job import Imported, Job, NewJob
from ..jobs.keyring import Keyring
from .address import Address
from .contract import Durability, Filter, Page, Store
from .front import Front

__all__ = ["EncryptedStore"]

_new: Final = tuple.__new__  # of a named tuple: without the function that its own is
_BODY: Final = Job._fields.index("body")


class EncryptedStore(Front):
    """Encrypts what is put, decrypts what is looked at. What it cannot decrypt is shown as it is.

    Claims come as they are stored: `opened` is for who works on them. A job that is imported with an encrypted body
    keeps it.
    """

    def __init__(self, store: Store, keyring: Keyring) -> None:
        self._store = store
        self._keyring = keyring

    @property
    def behind(self) -> Store:
        """The store with the encrypted bodies."""
        return self._store

    def _there(self) -> Store:
        return self._store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)  # what one kind of store can do, such as a backup

    # ---- what a store says of itself --------------------------------------------------------------------------------

    @property
    def url(self) -> str:  # type: ignore[override]
        """The address of the store behind."""
        return self._store.url

    @property
    def secret_url(self) -> str:
        """The address with its password, never to be shown."""
        return self._store.secret_url

    @property
    def address(self) -> Address | None:  # type: ignore[override]
        """Where a server's store is, with its password."""
        return self._store.address

    @property
    def clock(self) -> Clock:  # type: ignore[override]
        """The clock of the store behind."""
        return self._store.clock

    @property
    def durability(self) -> Durability:  # type: ignore[override]
        """What the store behind promises."""
        return self._store.durability

    @property
    def ids_grow(self) -> bool:  # type: ignore[override]
        """Whether the ids of the store behind do."""
        return self._store.ids_grow

    # ---- changes ----------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands; see the contract. What is wrong with a key is the outcome of the put that needs it."""
        sealed: list[Command[Any] | PywheelError] = list(commands)
        for place, command in enumerate(commands):
            if isinstance(command, Put | Import):
                try:
                    sealed[place] = self._sealed(command)
                except PywheelError as error:
                    sealed[place] = error
        good = [command for command in sealed if isinstance(command, Command)]
        found = iter(self._store.apply(good) if good or not sealed else ())
        return [next(found) if isinstance(command, Command) else command for command in sealed]

    def put_within(self, connection: object, put: Put) -> list[int]:
        """Apply a put in the caller's own transaction."""
        return self._store.put_within(connection, self._sealed(put))

    def _sealed(self, command: Any) -> Any:
        """Return a put or an import with encrypted bodies."""
        if isinstance(command, Import):
            return Import(tuple(map(self._sealed_import, command.jobs)), command.nonce)
        return Put(tuple(map(self.sealed, command.jobs)), command.nonce)

    def sealed(self, job: NewJob) -> NewJob:
        """Return a new job with an encrypted body. NoKey, BadJob."""
        if type(job.body) is not bytes:
            return job  # the store says what is wrong with it
        return job._replace(body=self._keyring.seal(job.topic, job.key, job.body))

    def _sealed_import(self, one: Imported) -> Imported:
        job = one.job
        if is_encrypted(job.body):
            return one
        return one._replace(job=job._replace(body=self._keyring.seal(job.topic, job.key, job.body)))

    # ---- looking ----------------------------------------------------------------------------------------------------

    def opened(self, job: Job) -> Job:
        """Return a job with its plain body. NoKey, BadBody."""
        try:
            body = self._keyring.open(job.topic, job.key, job.body)
        except BadBody as error:
            raise type(error)(f"job {job.id}: {error}") from None
        return job if body is job.body else _new(Job, (*job[:_BODY], body, *job[_BODY + 1 :]))

    def _readable(self, job: Job) -> Job:
        try:
            return self.opened(job)
        except BadBody:
            return job

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        job = self._store.get(ref)
        return None if job is None else self._readable(job)

    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return jobs by id."""
        return [self._readable(job) for job in self._store.jobs(filter, after, limit)]

    def page(
        self, filter: Filter, after: str = "", limit: int = 100, *, preview: int | None = None, newest: bool = False
    ) -> Page:
        """Return a page of jobs. A body is decrypted as a whole: of previews no less is read than of whole bodies."""
        if preview == 0:
            return self._store.page(filter, after, limit, preview=0, newest=newest)
        page = self._store.page(filter, after, limit, newest=newest)
        jobs = [self._readable(job) for job in page.jobs]
        sizes = [len(job.body) for job in jobs]
        if preview is not None:
            jobs = [job._replace(body=job.body[:preview]) if len(job.body) > preview else job for job in jobs]
        return page._replace(jobs=jobs, sizes=sizes)

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the store behind. Idempotent."""
        self._store.close()
