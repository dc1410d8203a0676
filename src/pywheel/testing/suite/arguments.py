"""Commands with bad arguments are refused before anything is stored."""

from __future__ import annotations

from typing import Any

from ..._errors import BadJob
from ...jobs import commands as c
from ...jobs.job import NewJob
from ...jobs.queries import CountJobs, GetJob
from .base import FAR, NOW, TERMS, StoreTests

NO_NUMBERS: tuple[Any, ...] = (1.0, 1.5, float("nan"), "1", b"1", True, 2**63, -(2**63), [1])


class ArgumentTests(StoreTests):
    """Commands with bad arguments are refused before anything is stored."""

    def bad(self, *commands: c.Command[Any]) -> None:
        """Check that each command is refused, alone and beside others, and that the others are applied."""
        before = self.ask(CountJobs()), [self.ask(GetJob(id)) for id in self.listed()]
        for command in commands:
            self.refused(command, BadJob)
        good, *refusals, last = self.store.apply([c.Cancel(10**12), *commands, c.Cancel(10**12)])
        assert good is last is c.Change.NOT_FOUND
        assert {type(refusal) for refusal in refusals} == {BadJob}
        assert (self.ask(CountJobs()), [self.ask(GetJob(id)) for id in self.listed()]) == before

    def test_no_number_is_no_time_for_a_job(self) -> None:
        id = self.put(due=FAR)
        for wrong in (*NO_NUMBERS, None):
            self.bad(c.Put((NewJob("t", b"", NOW), NewJob("t", b"", wrong))), c.Retry(id, wrong))
        for wrong in NO_NUMBERS:
            fields: list[dict[str, Any]] = [{name: wrong} for name in ("delay", "ttr", "max_attempts")]
            self.bad(*(c.Put((NewJob("t", b"", NOW)._replace(**field),)) for field in fields))
            self.bad(c.Edit(id, FAR, wrong), c.Edit(id, wrong))

    def test_no_number_is_no_delay_for_a_nack(self) -> None:
        job = self.begun()
        self.bad(*(c.Nack(job.id, 1, wrong) for wrong in NO_NUMBERS))
        assert self.job(job.id) == job

    def test_no_number_is_no_lease(self) -> None:
        id = self.put()
        self.reserve()
        self.bad(*(kind(id, 1, wrong) for wrong in NO_NUMBERS for kind in (c.Touch, c.Begin)), c.Begin(id, 1, None))  # type: ignore[arg-type]

    def test_no_number_is_no_receipt(self) -> None:
        id = self.put()
        self.reserve()
        wrongs: tuple[Any, ...] = (float(id), str(id), True, None)
        for wrong in wrongs:
            self.bad(c.Ack(wrong, 1), c.Release(wrong, 1), c.Nack(wrong, 1, 0), c.Touch(wrong, 1, 9))
            self.bad(c.Begin(wrong, 1, 9), c.Ack(id, wrong))

    def test_terms_hold_whole_numbers(self) -> None:
        id = self.put()
        for wrong in (*NO_NUMBERS, None):
            policies = [TERMS._replace(**{name: wrong}) for name in ("ttr", "max_attempts", "slack", "hold")]
            self.bad(*(c.Reserve("t", 1, policy, "w") for policy in (*policies, TERMS._replace(backoff=(5, wrong)))))
            self.bad(
                *(c.Claim("t", (id,), policy, "w", 1) for policy in policies), c.Claim("t", (id,), TERMS, "w", wrong)
            )
            self.bad(c.Reserve("t", wrong, TERMS, "w"), c.Reserve("t", 1, TERMS, "w", least=wrong))
        self.bad(*(c.Reserve("t", 1, TERMS, "w", bytes=wrong) for wrong in NO_NUMBERS))
        jitters: tuple[Any, ...] = (-0.1, 1.1, "1", None, float("nan"))
        self.bad(*(c.Reserve("t", 1, TERMS._replace(jitter=wrong), "w") for wrong in jitters))
        self.bad(c.Claim("t", (1.0,), TERMS, "w", 1))  # type: ignore[arg-type]

    def test_names_and_bodies_are_what_they_ought_to_be(self) -> None:
        topics: tuple[Any, ...] = (1, b"t", None, "\ud800")
        self.bad(
            *(c.Put((NewJob(topic, b"", NOW),)) for topic in topics), *(c.Cancel((topic, "k")) for topic in topics)
        )
        fields: dict[str, list[Any]] = {
            "key": [1, b"t", "\ud800"],
            "body": ["text", None, 1],
            "headers": [{"a": 1}, "a", [("a", "1")], {"a": "x" * 65_536}],
        }
        for name, values in fields.items():
            self.bad(*(c.Put((NewJob("t", b"", NOW)._replace(**{name: wrong}),)) for wrong in values))
        nonces: tuple[Any, ...] = (1, b"n", "", "n" * 201, "\ud800")
        self.bad(*(c.Put((NewJob("t", b"", NOW),), nonce) for nonce in nonces), c.Cancel(1.0))  # type: ignore[arg-type]

    def test_what_is_no_command_is_a_type_error_and_nothing_happens(self) -> None:
        id = self.put()
        self.raises(TypeError, lambda: self.store.apply([c.Cancel(id), "cancel"]))  # type: ignore[list-item]
        assert self.job(id).state.live
