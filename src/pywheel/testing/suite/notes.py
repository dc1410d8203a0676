"""Notes: small values by name, in the transaction of other commands. And changes that expect a job to be as seen."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..._errors import BadJob
from ...jobs.commands import NOTES_FORGOTTEN, Cancel, Change, Command, Edit, Nack, Pause, Purge, Put, SetNote
from ...jobs.job import Counts, NewJob, State
from ...jobs.queries import CountJobs, GetNote, ListNotes
from .base import FAR, NOW, StoreTests

JOB = NewJob("t", b"b", NOW)
NAMES = [
    *"a|a\1b|a |aa|a%|a_|a'; DROP TABLE note; --|A| a|[a-z]*|\u00e9|e\u0301|\uffff".split("|"),
    *("idem:" + "f" * 64, "\N{GRINNING FACE}" * 200, "x" * 200),
]


class NoteTests(StoreTests):
    """Small values by name."""

    def keep(self, name: str, value: bytes | None = b"v", **more: Any) -> bytes | None:
        """Set a note; return its value before."""
        return self.apply(SetNote(name, value, **more))

    def test_a_note_is_there_until_another_takes_its_place_or_it_is_deleted(self) -> None:
        assert self.ask(GetNote("n")) is None
        assert self.keep("n", b"1") is None
        assert self.ask(GetNote("n")) == b"1"
        assert self.keep("n", b"2") == b"1"
        assert self.keep("n", b"2") == b"2"
        assert self.ask(GetNote("n")) == b"2"
        assert self.keep("n", None) == b"2"
        assert self.ask(GetNote("n")) is None
        assert self.keep("n", None) is None
        assert self.ask(ListNotes("")) == []
        assert self.ask(CountJobs()) == {}

    def test_a_note_that_must_be_absent_changes_nothing_else(self) -> None:
        assert self.keep("n", b"1", absent=True) is None
        assert self.keep("n", b"2", absent=True) == b"1"
        assert self.keep("n", None, absent=True) == b"1"
        assert self.keep("n", b"2", absent=True, ttl=5) == b"1"
        self.pass_time(10)
        assert self.ask(GetNote("n")) == b"1"

    def test_a_note_is_over_at_the_end_of_its_ttl(self) -> None:
        self.keep("n", b"1", ttl=10)
        self.keep("stays", b"s")
        self.pass_time(9)
        assert self.ask(GetNote("n")) == b"1"
        assert self.ask(ListNotes("")) == [("n", b"1"), ("stays", b"s")]
        self.pass_time(1)
        assert self.ask(GetNote("n")) is None
        assert self.ask(ListNotes("")) == [("stays", b"s")]
        assert self.keep("n", b"2", absent=True) is None
        assert self.ask(GetNote("n")) == b"2"

    def test_each_keep_gives_a_note_an_end_of_its_own(self) -> None:
        self.keep("longer", b"1", ttl=10)
        self.keep("forever", b"1", ttl=10)
        self.keep("shorter", b"1")
        self.keep("gone", b"1", ttl=10)
        self.keep("longer", b"2", ttl=20)
        self.keep("forever", b"2")
        self.keep("shorter", b"2", ttl=5)
        self.keep("gone", None)
        self.pass_time(10)
        assert self.ask(ListNotes("")) == [("forever", b"2"), ("longer", b"2")]
        assert self.keep("shorter", None) is None
        self.pass_time(10)
        assert self.ask(ListNotes("")) == [("forever", b"2")]

    def test_notes_come_by_their_names(self) -> None:
        for place, name in enumerate(NAMES):
            assert self.keep(name, b"%d" % place) is None
        assert [self.ask(GetNote(name)) for name in NAMES] == [b"%d" % place for place in range(len(NAMES))]
        there = sorted((name, b"%d" % place) for place, name in enumerate(NAMES))
        assert self.ask(ListNotes("")) == there
        for prefix in ("a", "a\1", "A", "idem:", "\N{GRINNING FACE}", "e", "%", "_", "x" * 200, "x" * 201, "none"):
            assert self.ask(ListNotes(prefix)) == [note for note in there if note[0].startswith(prefix)]

    def test_notes_come_page_by_page(self) -> None:
        names = [f"p:{number:02}" for number in range(25)]
        for name in (*names, "o", "q"):
            self.keep(name)
        found: list[str] = []
        while page := self.ask(ListNotes("p:", found[-1] if found else "", 10)):
            assert len(page) <= 10
            found += [name for name, _ in page]
        assert found == names
        assert self.ask(ListNotes("p:", "zzz")) == self.ask(ListNotes("p:", limit=0)) == []
        assert [name for name, _ in self.ask(ListNotes("p:", "a", 2))] == names[:2]
        assert [name for name, _ in self.ask(ListNotes("p:", "p:03x", 1))] == ["p:04"]

    def test_a_note_holds_any_bytes_up_to_64_kib(self) -> None:
        for value in (b"", b"\0", bytes(range(256)) * 256):
            self.keep("n", value)
            assert self.ask(GetNote("n")) == value
            assert self.ask(ListNotes("n")) == [("n", value)]
            assert self.keep("n", value) == value

    def test_what_makes_no_sense_is_refused_and_changes_nothing(self) -> None:
        self.keep("n", b"1")
        wrong: list[Any] = [
            *(SetNote(name, b"2") for name in ("", "x" * 201, 1, None, b"n", "\ud800")),  # type: ignore[arg-type]
            *(SetNote("n", value) for value in ("2", 2, bytearray(b"2"), b"2" * 65_537)),  # type: ignore[arg-type]
            *(SetNote("n", b"2", ttl) for ttl in (0, -1, 1.0, "1", True, 2**63)),  # type: ignore[arg-type]
            *(SetNote("n", b"2", None, absent) for absent in (1, None, "yes")),  # type: ignore[arg-type]
        ]
        for command in wrong:
            self.refused(command, BadJob)
        assert self.ask(ListNotes("")) == [("n", b"1")]
        for name in ("", "x" * 201, 1, "\ud800"):
            self.raises(BadJob, partial(self.ask, GetNote(name)))  # type: ignore[arg-type]

    def test_notes_that_come_together_are_kept_in_order(self) -> None:
        first = [SetNote("n", b"1"), SetNote("n", b"2", absent=True), SetNote("m", b"m")]
        assert self.store.apply([*first, SetNote("n", None), SetNote("n", b"3")]) == [None, b"1", None, b"1", None]
        then = [SetNote("n", None), SetNote("n", b"4", absent=True), SetNote("n", b"5")]
        assert self.store.apply(then) == [b"3", None, b"4"]
        assert self.ask(ListNotes("")) == [("m", b"m"), ("n", b"5")]

    def test_a_note_and_a_put_happen_together(self) -> None:
        step: list[Command[Any]] = [Put((JOB, JOB), "key"), SetNote("idem:key", b"print", 1_000, absent=True)]
        ids, before = self.store.apply(step)
        assert before is None
        assert self.store.apply(step) == [ids, b"print"]
        assert self.counts() == Counts(delayed=2)
        assert self.ask(GetNote("idem:key")) == b"print"
        more: list[Command[Any]] = [SetNote("idem:other", b"o", absent=True), Put((JOB,), "other")]
        outcomes = self.store.apply([*more, Pause("u", paused=True), Cancel(ids[0])])
        assert [type(outcome) for outcome in outcomes] == [type(None), list, bool, Change]
        assert self.ask(ListNotes("idem:")) == [("idem:key", b"print"), ("idem:other", b"o")]

    def test_a_refused_put_leaves_the_note_beside_it(self) -> None:
        self.put(key="k")
        step: list[Command[Any]] = [Put((JOB._replace(key="k"),), "n"), SetNote("other", b"1")]
        refused, before = self.store.apply(step)
        assert isinstance(refused, Exception)
        assert before is None
        assert self.ask(GetNote("other")) == b"1"

    def test_notes_that_are_over_are_forgotten_a_few_at_a_time(self) -> None:
        for number in range(NOTES_FORGOTTEN + 5):
            self.keep(f"{number}", ttl=10)
        self.keep("stays")
        self.pass_time(10)
        assert self.ask(ListNotes("")) == [("stays", b"v")]
        for number in range(64):  # each of several stores forgets its own
            self.keep(f"later {number}", ttl=10)
        self.pass_time(10)
        assert self.apply(Purge(State.DONE, 0, None, 100)) == 0
        assert self.ask(ListNotes("")) == [("stays", b"v")]
        assert self.store.verify() == []


class ExpectTests(StoreTests):
    """Changes that are made only if a job is still as it was seen."""

    def seen(self, id: int) -> tuple[int, int]:
        """Return the `expect` for a job as it is now."""
        job = self.job(id)
        return job.due, job.claims

    def test_a_job_that_is_as_expected_is_cancelled(self) -> None:
        id = self.put(due=FAR)
        assert self.apply(Cancel(id, expect=(FAR, 1))) is Change.CHANGED
        assert self.apply(Cancel(id, expect=(FAR + 1, 0))) is Change.CHANGED
        assert self.state(id) is State.DELAYED
        assert self.apply(Cancel(id, expect=(FAR, 0)))
        assert self.state(id) is State.CANCELLED
        assert self.apply(Cancel(id, expect=self.seen(id))) is Change.CANCELLED
        assert self.apply(Cancel(id, expect=(FAR, 0))) is Change.CHANGED
        assert self.apply(Cancel(10**12, expect=(FAR, 0))) is Change.NOT_FOUND

    def test_a_job_that_is_as_expected_is_rescheduled(self) -> None:
        id = self.put(due=FAR, key="k")
        before = self.seen(id)
        assert self.apply(Edit(id, NOW, expect=(FAR, 1))) is Change.CHANGED
        assert self.apply(Edit(("t", "k"), FAR + 1, expect=before))
        assert self.job(id).due == FAR + 1
        assert not self.apply(Edit(id, delay=5, expect=before))
        assert not self.apply(Cancel(("t", "k"), expect=before))
        assert self.apply(Edit(id, delay=5, expect=(FAR + 1, 0)))
        assert self.job(id).due == NOW + 5

    def test_a_claim_is_seen_in_what_is_expected(self) -> None:
        id = self.put()
        before = self.seen(id)
        job = self.one()
        assert self.apply(Cancel(id, expect=self.seen(id))) is Change.RUNNING
        assert self.apply(Cancel(id, expect=before)) is Change.CHANGED
        self.apply(Nack(id, job.claims, 0))
        assert self.job(id).due == NOW
        assert not self.apply(Cancel(id, expect=before))
        assert self.apply(Cancel(id, expect=(NOW, 1)))

    def test_a_job_whose_lease_is_over_is_expected_as_it_is_seen(self) -> None:
        id = self.put()
        self.one()
        self.pass_time(2_000)
        assert self.job(id).state is State.DELAYED
        assert not self.apply(Edit(id, FAR, expect=(FAR, 1)))
        assert self.apply(Edit(id, FAR, expect=self.seen(id)))

    def test_many_are_each_cancelled_as_expected(self) -> None:
        ids = [self.put(due=FAR) for _ in range(4)]
        commands = [Cancel(ids[0], (FAR, 0)), Cancel(ids[1], (NOW, 0)), Cancel(ids[2]), Cancel(10**12, (FAR, 0))]
        assert self.store.apply(commands) == [Change.MADE, Change.CHANGED, Change.MADE, Change.NOT_FOUND]
        assert self.store.apply([Cancel(ids[1], (FAR, 0))] * 2) == [Change.MADE, Change.CHANGED]
        assert self.counts() == Counts(delayed=1, cancelled=3)

    def test_what_cannot_be_expected_is_refused(self) -> None:
        id = self.put(due=FAR)
        wrong: list[Any] = [(), (FAR,), [FAR, 0], FAR, (FAR, 0, 0), (FAR, None), (1.0, 0), (FAR, True), (2**63, 0)]
        for expect in wrong:
            self.refused(Cancel(id, expect), BadJob)
            self.refused(Edit(id, NOW, None, expect), BadJob)
        assert self.job(id).due == FAR
