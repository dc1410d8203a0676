"""Commands with bad arguments are refused before anything is stored."""

from __future__ import annotations

from typing import Any

from ..._errors import BadJob
from ...jobs import commands as c
from ...jobs.job import NewJob
from ...jobs.queries import CountJobs, GetJob
from .base import FAR, NOW, TERMS, StoreTests

__all__ = ["ArgumentTests"]

NO_NUMBERS: tuple[Any, ...] = (1.0, 1.5, float("nan"), "1", b"1", True, 2**63, -(2**63), [1])


class ArgumentTests(StoreTests):
    """Commands with bad arguments are refused before anything is stored."""

    def bad(self, command: c.Command[Any]) -> None:
        """Check that a command is refused, alone and beside others, and that the others are applied."""
        before = self.ask(CountJobs()), [self.ask(GetJob(id)) for id in self.listed()]
        self.refused(command, BadJob)
        [good, refusal, last] = self.store.apply([c.Cancel(10**12), command, c.Cancel(10**12)])
        assert good is last is c.Change.NOT_FOUND
        assert isinstance(refusal, BadJob)
        assert (self.ask(CountJobs()), [self.ask(GetJob(id)) for id in self.listed()]) == before

    def test_no_number_is_no_time_for_a_job(self) -> None:
        id = self.put(due=FAR)
        for wrong in (*NO_NUMBERS, None):
            self.bad(c.Put((NewJob("t", b"", NOW), NewJob("t", b"", wrong))))
            self.bad(c.Retry(id, wrong))
        for wrong in NO_NUMBERS:
            for name in ("delay", "ttr", "max_attempts"):
                self.bad(c.Put((NewJob("t", b"", NOW)._replace(**{name: wrong}),)))
            self.bad(c.Edit(id, FAR, wrong))
            self.bad(c.Edit(id, wrong))

    def test_no_number_is_no_delay_for_a_nack(self) -> None:
        job = self.begun()
        for wrong in NO_NUMBERS:
            self.bad(c.Nack(job.id, 1, wrong))
        assert self.job(job.id) == job

    def test_no_number_is_no_lease(self) -> None:
        id = self.put()
        self.reserve()
        for wrong in (*NO_NUMBERS, None):
            self.bad(c.Touch(id, 1, wrong))
            self.bad(c.Begin(id, 1, wrong))

    def test_no_number_is_no_receipt(self) -> None:
        id = self.put()
        self.reserve()
        wrongs: tuple[Any, ...] = (float(id), str(id), True, None)
        for wrong in wrongs:
            for command in (c.Ack(wrong, 1), c.Release(wrong, 1), c.Nack(wrong, 1, 0), c.Touch(wrong, 1, 9)):
                self.bad(command)
            self.bad(c.Begin(wrong, 1, 9))
            self.bad(c.Ack(id, wrong))

    def test_terms_hold_whole_numbers(self) -> None:
        id = self.put()
        for wrong in (*NO_NUMBERS, None):
            for name in ("ttr", "max_attempts", "slack", "hold"):
                policy = TERMS._replace(**{name: wrong})
                self.bad(c.Reserve("t", 1, policy, "w"))
                self.bad(c.Claim("t", (id,), policy, "w", 1))
            self.bad(c.Reserve("t", 1, TERMS._replace(backoff=(5, wrong)), "w"))
            self.bad(c.Reserve("t", wrong, TERMS, "w"))
            self.bad(c.Reserve("t", 1, TERMS, "w", least=wrong))
            if wrong is not None:
                self.bad(c.Reserve("t", 1, TERMS, "w", bytes=wrong))
            self.bad(c.Claim("t", (id,), TERMS, "w", wrong))
        jitters: tuple[Any, ...] = (-0.1, 1.1, "1", None, float("nan"))
        for wrong in jitters:
            self.bad(c.Reserve("t", 1, TERMS._replace(jitter=wrong), "w"))
        self.bad(c.Claim("t", (1.0,), TERMS, "w", 1))  # type: ignore[arg-type]

    def test_names_and_bodies_are_what_they_ought_to_be(self) -> None:
        for wrong in (1, b"t", None, "\ud800"):
            self.bad(c.Put((NewJob(wrong, b"", NOW),)))  # type: ignore[arg-type]
            self.bad(c.Cancel((wrong, "k")))  # type: ignore[arg-type]
        for wrong in (1, b"t", "\ud800"):
            self.bad(c.Put((NewJob("t", b"", NOW, wrong),)))  # type: ignore[arg-type]
        for body in ("text", None, 1):
            self.bad(c.Put((NewJob("t", body, NOW),)))  # type: ignore[arg-type]
        for headers in ({"a": 1}, "a", [("a", "1")]):
            self.bad(c.Put((NewJob("t", b"", NOW, headers=headers),)))  # type: ignore[arg-type]
        for nonce in (1, b"n", "", "n" * 201, "\ud800"):
            self.bad(c.Put((NewJob("t", b"", NOW),), nonce))  # type: ignore[arg-type]
        self.bad(c.Cancel(1.0))  # type: ignore[arg-type]

    def test_what_is_no_command_is_a_type_error_and_nothing_happens(self) -> None:
        id = self.put()
        self.raises(TypeError, lambda: self.store.apply([c.Cancel(id), "cancel"]))  # type: ignore[list-item]
        assert self.job(id).state.live
