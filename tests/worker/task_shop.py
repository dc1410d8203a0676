"""A program with tasks, in a thread, on the loop and in processes of their own. It notes its events in a file."""

import asyncio
import contextvars
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from pywheel import Fixed, Job, JobQueue, provided

queue = JobQueue("memory:")
shop = contextvars.ContextVar("shop", default="none")


class Session:
    """The object that is provided to functions."""


class AsyncSession:
    """The object that is provided to coroutine functions."""


def note(job, *words):
    with Path(job.headers["notes"]).open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


@queue.before
def enter(job):
    note(job, "before", shop.get(), os.getpid())
    shop.set(job.headers["shop"])


@queue.after
def leave(job, error):
    note(job, "after", shop.get(), repr(error))


@queue.on_dead
def bury(job):
    note(job, "dead", job.last_error)


@queue.provide
def session(job: Job) -> Iterator[Session]:
    note(job, "open")
    try:
        yield Session()
    finally:
        note(job, "close")


@queue.provide
async def asession(job: Job) -> AsyncIterator[AsyncSession]:
    note(job, "open")
    try:
        yield AsyncSession()
    finally:
        await asyncio.sleep(0)
        note(job, "close")


def handle(job, n):
    note(job, "handle", n, shop.get())
    if n < 0:
        raise ValueError(n)


@queue.task("thread", retry=Fixed(0, attempts=1))
def in_thread(job: Job, n: int, session: Session = provided) -> None:
    assert isinstance(session, Session)
    handle(job, n)


@queue.task("loop", retry=Fixed(0, attempts=1))
async def on_loop(job: Job, n: int, session: AsyncSession = provided) -> None:
    assert isinstance(session, AsyncSession)
    await asyncio.sleep(0)
    handle(job, n)


@queue.task("isolated", retry=Fixed(0, attempts=1), isolate=True, concurrency=1)
def isolated(job: Job, n: int, session: Session = provided) -> None:
    in_thread(job, n, session)


@queue.task("aisolated", retry=Fixed(0, attempts=1), isolate=True, concurrency=1)
async def aisolated(job: Job, n: int, session: AsyncSession = provided) -> None:
    await on_loop(job, n, session)


@queue.task("hangs")
async def hangs(job: Job, session: AsyncSession = provided) -> None:
    note(job, "hangs")
    await asyncio.sleep(600)
