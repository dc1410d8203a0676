"""Puts on their way to the store, each within what the queue's tracer stands around."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from ..events import Sending, Tracer
from ..jobs.commands import Command, Put

__all__ = ["Traced"]


class Traced:
    """Stands around commands that are applied together; what is no put goes through as it is."""

    def __init__(self, tracer: Tracer, commands: Sequence[Command[Any]]) -> None:
        self._tracer = tracer
        self._puts: dict[int, tuple[AbstractContextManager[Sending], Sending]] = {}
        self.commands: Sequence[Command[Any]] = commands
        """What is to be applied, once this is entered."""
        self.outcomes: Sequence[Any] = ()
        """What came of it."""

    def __enter__(self) -> Self:
        commands = list(self.commands)
        for place, command in enumerate(commands):
            if isinstance(command, Put):
                around = self._tracer.sending(tuple(command.jobs))
                sending = around.__enter__()
                self._puts[place] = around, sending
                if sending.jobs is not command.jobs:
                    commands[place] = replace(command, jobs=sending.jobs)
        self.commands = commands
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place, (around, sending) in reversed(self._puts.items()):
            outcome = self.outcomes[place] if error is None and place < len(self.outcomes) else error
            if isinstance(outcome, BaseException):
                around.__exit__(type(outcome), outcome, trace)
            else:
                sending.ids = outcome or ()
                around.__exit__(None, None, None)
