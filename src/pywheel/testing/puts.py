"""A store in memory that remembers all puts, and their description in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from ..execution import is_tick
from ..jobs.commands import Command, Put
from ..jobs.job import Job
from ..jobs.queries import GetJob
from ..stores.memory import MemoryStore
from ..stores.schedule_notes import TOPIC

R = TypeVar("R")


class PutJob(NamedTuple):
    """A job as it was put, and how long after the put it was due, in ms."""

    job: Job
    delay: int


class RecordingStore(MemoryStore):
    """A store in memory. `puts` has the jobs as they were put, in order; a replaced job is there as it is now.

    A command with a `connection=` is applied at once, as if that transaction had committed.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.puts: dict[int, PutJob] = {}

    def apply(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Apply commands, and remember the puts among them."""
        outcomes = super().apply(commands)
        now = self.clock.wall()
        for command, outcome in zip(commands, outcomes, strict=True):
            if isinstance(command, Put) and not isinstance(outcome, BaseException):
                for id in outcome:
                    self.puts.pop(id, None)  # a put that replaced a job with its key is the latest put
                    job = self.ask(GetJob(id))
                    if job is not None and job.topic != TOPIC and not is_tick(job):  # a put of the program
                        self.puts[id] = PutJob(job, max(job.due - now, 0))
        return outcomes

    def apply_within(self, connection: object, command: Command[R]) -> R:  # noqa: ARG002
        """Apply a command now: a test's jobs are in no database, and its transaction may never commit."""
        [outcome] = self.apply([command])
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome  # type: ignore[no-any-return]  # the command's type


def in_words(put: PutJob) -> str:
    """Return a put as a line of text: topic, body, delay, key."""
    job = put.job
    body = job.body.decode("utf-8", "backslashreplace")
    key = "" if job.key is None else f", key {job.key!r}"
    return f"{job.topic} {body:.200} {said(put.delay)}{key}"


def said(ms: int) -> str:
    """Return a delay as people write it: "1d 30m", or "at once"."""
    parts = []
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        number, ms = divmod(ms, length)
        if number:
            parts.append(f"{number}{unit}")
    return f"in {' '.join(parts)}" if parts else "at once"
