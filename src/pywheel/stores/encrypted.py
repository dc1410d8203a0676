"""A store in front of another that holds bodies and results encrypted: callers of this one see plain ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from .._errors import BadBody
from ..jobs.bodies import is_encrypted
from ..jobs.commands import Ack, Command, Edit, Import, Put
from ..jobs.job import Attempt, Imported, Job, NewJob
from ..jobs.keyring import Keyring
from ..jobs.queries import GetHistories, GetJob, GetPage, ListJobs, Page, Query
from .checks import checked, prepared
from .contract import Store
from .front import Front, close_beside

R = TypeVar("R")


def result_name(topic: str) -> str:
    """Return the topic for which results are encrypted: so no result can stand for a body, nor a body for a result."""
    return f"result of {topic}"


class EncryptedStore(Front):
    """Encrypts bodies that are put, and decrypts those that are read. A body that it cannot decrypt is shown as it is.

    Claims come as they are stored: workers decrypt them by `opened`, which may refuse a plain body. A plain result is
    read by callers alone, so the same keyring hides it here. A job that is imported with an encrypted body keeps it.
    """

    def __init__(self, store: Store, keyring: Keyring) -> None:
        self.behind = store
        """The store with the encrypted bodies."""
        self._keyring = keyring

    def _there(self) -> Store:
        return self.behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)  # abilities of one kind of store, such as a backup

    # ---- changes ----------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands; see the contract. An error of a key is the outcome of the put that needs it."""
        return prepared(commands, self._sealed, self.behind.apply)

    def apply_each(self, commands: Sequence[Command[Any]], *, again: bool = False) -> list[Any]:
        """Apply commands of unrelated callers. See the contract."""
        return prepared(commands, self._sealed, partial(self.behind.apply_each, again=again))

    def apply_within(self, connection: object, command: Command[R]) -> R:
        """Apply a command in the caller's own transaction."""
        sealed: Command[R] = self._sealed(command)
        return self.behind.apply_within(connection, sealed)

    def _sealed(self, command: Any) -> Any:
        if isinstance(command, Put):
            return replace(command, jobs=tuple(map(self.sealed, command.jobs)))
        if isinstance(command, Import):
            return replace(command, jobs=tuple(map(self._sealed_import, command.jobs)))
        if isinstance(command, Edit) and command.body is not None:
            return self._sealed_edit(checked(command))
        if isinstance(command, Ack) and type(command.result) is bytes and not is_encrypted(command.result):
            # A worker's result is encrypted already; for another caller's the job must be read first.
            job = self.behind.ask(GetJob(command.id))
            return command if job is None else replace(command, result=self.sealed_result(job, command.result))
        return command

    def sealed(self, job: NewJob) -> NewJob:
        """Return a new job with an encrypted body. NoKey, BadJob."""
        if type(job.body) is not bytes:
            return job  # the store reports the fault
        return job._replace(body=self._keyring.seal(job.topic, job.key, job.body))

    def _sealed_edit(self, command: Any) -> Any:
        """Return an edit with an encrypted body. Topic and key of a job that is named by its id are read first."""
        topic, key = (None, None) if isinstance(command.ref, int) else command.ref
        if topic is None:
            job = self.behind.ask(GetJob(command.ref))
            if job is None:
                return replace(command, ref=0)  # the id of no job: one may appear in a moment
            topic, key = job.topic, job.key
        return replace(command, body=self._keyring.seal(topic, key, command.body))

    def _sealed_import(self, one: Imported) -> Imported:
        job = one.job
        if one.result is not None and not is_encrypted(one.result):
            last = one.history[-1]._replace(result=self.sealed_result(job, one.result))
            one = one._replace(history=(*one.history[:-1], last))
        if is_encrypted(job.body):
            return one
        return one._replace(job=job._replace(body=self._keyring.seal(job.topic, job.key, job.body)))

    def sealed_result(self, job: Job, result: bytes) -> bytes:
        """Return the result of a job as it is stored."""
        return self._keyring.seal(result_name(job.topic), job.key, result)

    # ---- looking ----------------------------------------------------------------------------------------------------

    def opened(self, job: Job) -> Job:
        """Return a job with its plain body. NoKey, BadBody."""
        try:
            body = self._keyring.open(job.topic, job.key, job.body)
        except BadBody as error:
            raise type(error)(f"job {job.id}: {error}") from None
        return job if body is job.body else job._replace(body=body)

    def _readable(self, job: Job) -> Job:
        try:
            return self.opened(job)
        except BadBody:
            return job

    def ask(self, query: Query[R]) -> R:
        """Return the answer to a query, with plain bodies and results as far as they can be decrypted here."""
        opened = _OPENED.get(type(query))
        return self.behind.ask(query) if opened is None else opened(self, query)

    def _job(self, query: GetJob) -> Job | None:
        job = self.behind.ask(query)
        return None if job is None else self._readable(job)

    def _jobs(self, query: ListJobs) -> list[Job]:
        return [self._readable(job) for job in self.behind.ask(query)]

    def _page(self, query: GetPage) -> Page:
        """Return a page. A body is decrypted as a whole: previews cost as much reading as whole bodies."""
        if query.preview == 0:
            return self.behind.ask(query)
        page = self.behind.ask(replace(query, preview=None))
        jobs = [self._readable(job) for job in page.jobs]
        sizes = [len(job.body) for job in jobs]
        if query.preview is not None:
            jobs = [job._replace(body=job.body[: query.preview]) for job in jobs]
        return page._replace(jobs=jobs, sizes=sizes)

    def _histories(self, query: GetHistories) -> list[list[Attempt]]:
        return [self._opened_result(id, rows) for id, rows in zip(query.ids, self.behind.ask(query), strict=True)]

    def _opened_result(self, id: int, attempts: list[Attempt]) -> list[Attempt]:
        """Return a history with a plain result, if it can be decrypted here; with none if the keyring refuses it."""
        result = attempts[-1].result if attempts else None
        if result is None:
            return attempts
        if not is_encrypted(result):
            return attempts if self._keyring.plain else [*attempts[:-1], attempts[-1]._replace(result=None)]
        if (job := self.behind.ask(GetJob(id))) is not None:
            with suppress(BadBody):
                result = self._keyring.open(result_name(job.topic), job.key, result)
                return [*attempts[:-1], attempts[-1]._replace(result=result)]
        return attempts

    # ---- life -------------------------------------------------------------------------------------------------------

    def _close_beside(self, kept: EncryptedStore) -> None:
        close_beside(kept.behind, self.behind)


_OPENED: Final[dict[type, Callable[[EncryptedStore, Any], Any]]] = {
    GetJob: EncryptedStore._job,
    ListJobs: EncryptedStore._jobs,
    GetPage: EncryptedStore._page,
    GetHistories: EncryptedStore._histories,
}
"""The queries whose answers hold bodies or results."""
