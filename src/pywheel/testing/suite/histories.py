"""Random operations: every outcome, and all contents, are compared with the model's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random, randrange
from typing import Any

from ..._errors import PywheelError
from ...clock import ManualClock
from ...jobs import commands as c
from ...jobs import queries as q
from ...jobs.job import Attempt, Imported, Job, NewJob, Outcome, State
from ...jobs.limits import Limits
from .base import NOW, StoreTests
from .model import MISSING, Model

TOPICS = ("a", "b")
NOTES = ("n", "n:1", "n:2", "m:1", "m:n1")
LIMITS = (Limits(2), Limits(1, "k"), Limits(None, None, 3_500, 2), Limits(3, None, 900, 1))
STEPS = 150
LOOK = 15  # steps between two looks at all contents
SOME = 8  # jobs that each look asks for one by one
EDITS: tuple[tuple[str, Any], ...] = (
    ("priority", 3), ("priority", 0), ("ttr", 40), ("ttr", None), ("headers", {"e/": "2"}), ("headers", {}),
)  # fmt: skip
PAST = {Outcome.FAILED: (("e3", None), (None, None)), Outcome.DONE: ((None, b"r2"),)}  # errors and results of imports
LAST = {State.DONE: Outcome.DONE, State.CANCELLED: Outcome.CANCELLED, State.DEAD: Outcome.FAILED}


class Pair:
    """A store and the model, side by side."""

    def __init__(self, test: StoreTests, random: Random) -> None:
        self.test, self.random = test, random
        self.model = Model(test.clock)
        self.ids: dict[int, None] = {}  # in the order of their creation
        self.receipts: list[tuple[int, int]] = [(1, 1)]

    # ---- commands ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Apply some random commands to both, and compare the outcomes."""
        some = [self.command() for _ in range(self.random.choice((1, 1, 1, 2, 5)))]
        commands: list[c.Command[Any]] = []
        for command in some:
            if isinstance(command, c.Claim) and command.limit:
                commands.append(c.Expire(1_000))  # the model ends leases by itself
            commands.append(command)
        # One by one as often as together: several commands of a kind take another path than one.
        if self.random.random() < 0.5:
            found = [outcome for command in commands for outcome in self.test.store.apply([command])]
        else:
            found = self.test.store.apply(commands)
        for command, theirs in zip(commands, found, strict=True):
            if isinstance(command, c.Put | c.Import) and not isinstance(theirs, PywheelError):
                self.model.given.extend(id for id in dict.fromkeys(theirs) if id not in self.ids)
                self.ids.update(dict.fromkeys(theirs))
        expected = self.model.apply(list(map(self.as_taken, commands, found)))
        for command, mine, theirs in zip(commands, expected, found, strict=True):
            self.compare(command, mine, theirs)
        assert not self.model.given
        self.test.reopen()

    def as_taken(self, command: c.Command[Any], theirs: Any) -> c.Command[Any]:
        """Return a claim with the number of its jobs as limit, if the store left the rest to a further claim."""
        cut = isinstance(theirs, c.Claimed) and theirs.jobs and not theirs.left
        if isinstance(command, c.Claim) and cut and theirs.next == self.test.clock.wall():
            return replace(command, limit=len(theirs.jobs))
        return command

    def compare(self, command: c.Command[Any], mine: Any, theirs: Any) -> None:
        """Compare two outcomes."""
        if isinstance(mine, PywheelError):
            assert type(theirs) is type(mine), (command, mine, theirs)
        elif isinstance(command, c.Expire):
            assert theirs.next_lease == mine.next_lease  # the numbers of ended leases may differ
        else:
            assert theirs == mine, (command, theirs, mine)
        if isinstance(command, c.Reserve | c.Claim):
            jobs = mine if isinstance(command, c.Reserve) else mine.jobs
            self.receipts += [(job.id, job.claims) for job in jobs]

    def command(self) -> c.Command[Any]:
        """Return a random command."""
        kinds: list[Callable[[], c.Command[Any]]] = (
            [self.put] * 4
            + [self.imports]
            + [self.by_ref] * 3
            + [self.claim, self.reserve] * 2
            + [self.settle] * 4
            + [self.keep] * 2
            + [self.expire, self.pause, self.purge]
        )
        return self.random.choice(kinds)()

    def any_id(self) -> int:
        """Return the id of a job that was put, or an id that no job has."""
        return self.random.choice((*self.ids, MISSING))

    def put(self) -> c.Command[Any]:
        random = self.random
        keys = [random.choice((None, None, "k", "l")) for _ in range(random.choice((0, 1, 1, 1, 2, 30)))]
        jobs = [
            NewJob(
                random.choice(TOPICS),
                b"%d" % random.randrange(100),
                self.when(),
                key,
                random.choice((None, None, 40)),
                random.choice((None, 1, 2)),
                random.choice((None, {"h": "1"})),
                random.choice((0, 0, 0, 3, -1)),
                random.choice((None, 60)),
                replace=random.random() < 0.5,
                delay=random.choice((None, None, 20)),
                parent=random.choice((None, random.choice(self.receipts))),
                dedupe_for=random.choice((None, None, 15)) if key else None,
            )
            for key in keys
        ]
        return c.Put(tuple(jobs), random.choice((None, None, f"n{random.randrange(20)}")))

    def imports(self) -> c.Command[Any]:
        random = self.random
        jobs = []
        for _ in range(random.choice((0, 1, 3))):
            state = random.choice([State.DELAYED, *LAST])
            outcomes = random.choices([Outcome.FAILED, Outcome.LOST, Outcome.RELEASED], k=random.randrange(3))
            outcomes += [LAST[state]] if state in LAST else []
            times = sorted(self.when() for _ in outcomes)
            rows = [
                Attempt(claim, claim, None, when, outcome, "w", *random.choice(PAST.get(outcome, ((None, None),))))
                for claim, (when, outcome) in enumerate(zip(times, outcomes, strict=True), 1)
            ]
            job = Job(
                1,
                random.choice(TOPICS),
                b"i",
                self.when(),
                self.when(),
                state,
                random.choice((None, "k", "l")),
                claims=len(rows),
                attempt=random.randint(0, len(rows)),
                lost=random.randrange(3 if rows and state is State.DELAYED else 1),
                priority=random.choice((0, 0, 3)),
            )
            jobs.append(Imported(job, tuple(rows), random.random() < 0.3))
        return c.Import(tuple(jobs), random.choice((None, f"n{random.randrange(20)}")))

    def by_ref(self) -> c.Command[Any]:
        random = self.random
        kind: Any = random.choice((c.Cancel, c.Edit, c.Retry, c.Delete))
        due = random.choice((None, self.when())) if kind is c.Edit else self.when()
        more: tuple[Any, ...] = () if kind in (c.Cancel, c.Delete) else (due, random.choice((None, 30)))
        name = (random.choice(TOPICS), random.choice("kl"))
        ref = name if random.random() < 0.3 else self.any_id()
        if kind in (c.Cancel, c.Edit) and random.random() < 0.5:
            job = self.model.get(ref)
            seen = (0, 0) if job is None else (job.due, job.claims)
            more = (*more, random.choice((seen, seen, (seen[0], seen[1] + 1), (seen[0] + 1, seen[1]))))
        command: c.Command[Any] = kind(ref, *more)
        if isinstance(command, c.Edit) and random.random() < 0.7:
            body, fields = random.choice((None, b"e", b"")), random.sample(EDITS, random.randrange(3))
            command = replace(command, body=body, fields=dict(fields))
        return command

    def keep(self) -> c.Command[Any]:
        random = self.random
        value = random.choice((None, b"1", b"2", b""))
        return c.SetNote(random.choice(NOTES), value, random.choice((None, 5, 40)), random.random() < 0.5)

    def claim(self) -> c.Command[Any]:
        random = self.random
        ids = random.choice(self.test.together([self.any_id() for _ in range(random.choice((1, 5, 20)))]))
        most = random.choice((0, 1, 3, 10**6))
        topic, suspects = random.choice(TOPICS), random.randrange(3)
        if self.test.store.keeps_limits and random.random() < 0.5:  # each of several stores would claim its share
            after = random.choice((None, None, (random.choice((None, 0, 3)), self.when(), self.any_id())))
            limit, without = random.choice((1, 2, 5, 100)), tuple(ids[:2] if random.random() < 0.3 else ())
            begin = random.randrange(4)
            return c.Claim(topic, (), self.policy(), "w", begin, suspects, most, limit, after, without)
        return c.Claim(topic, tuple(ids), self.policy(), "w", random.randrange(4), suspects, most)

    def reserve(self) -> c.Command[Any]:
        random = self.random
        command = c.Reserve(random.choice(TOPICS), random.randrange(5), self.policy(), "v")
        if self.test.store.keeps_limits:  # each of several stores would claim another share
            command.bytes, command.least = random.choice((None, 0, 1, 3, 10**6)), random.randrange(3)
        return command

    def settle(self) -> c.Command[Any]:
        random = self.random
        receipt = random.choice(self.receipts[-12:])
        kind, more = random.choice(
            [
                (c.Ack, (random.choice((None, None, b"r1", b"")),)),
                (c.Nack, (random.choice((None, 0, 15)), random.choice((None, "e1", "e2")))),
                (c.Release, ()),
                (c.Touch, (random.choice((25, 25, 25, None)),)),
                (c.Begin, (35,)),
            ]
        )
        make: Any = kind
        command: c.Command[Any] = make(*receipt, *more)
        return command

    def expire(self) -> c.Command[Any]:
        return c.Expire(1_000)

    def pause(self) -> c.Command[Any]:
        return c.Pause(self.random.choice(TOPICS), self.random.random() < 0.3)

    def purge(self) -> c.Command[Any]:
        states, topics = (State.DONE, State.DEAD, State.CANCELLED), (None, *TOPICS)
        return c.Purge(self.random.choice(states), self.random.choice((0, 10, 50)), self.random.choice(topics), 1_000)

    def when(self) -> int:
        return self.test.clock.wall() + self.random.randrange(-20, 40)

    def policy(self) -> c.ClaimPolicy:
        random = self.random
        backoff = random.choice(((), (5, 9)))
        limits = random.choice(LIMITS) if self.test.store.keeps_limits and random.random() < 0.3 else None
        return c.ClaimPolicy(random.choice((20, 60)), 3, backoff, 0.0, 2, 15, limits)

    # ---- looking ----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Compare the contents of both, and the store's stored counts with its contents."""
        model, store = self.model, self.test.store
        jobs = model.jobs(q.Filter())
        assert store.ask(q.ListJobs(q.Filter(), 0, 10**9)) == jobs
        some = self.random.sample(jobs, min(len(jobs), SOME))
        assert [store.ask(q.GetJob(job.id)) for job in some] == some
        assert store.ask(q.CountJobs()) == model.counts()
        for state in State:
            assert store.ask(q.ListJobs(q.Filter(state=state), 0, 10**9)) == [job for job in jobs if job.state is state]
            fit = [job for job in jobs if (job.topic, job.state) == ("a", state)]
            assert store.ask(q.ListJobs(q.Filter("a", state), 0, 10**9)) == fit
        for key in "kl":
            assert store.ask(q.ListJobs(q.Filter(key=key), 0, 10**9)) == [job for job in jobs if job.key == key]
            mine = model.get(("a", key))
            assert store.ask(q.GetJob(("a", key))) == mine
        for prefix in ("", "n", "n:", "m:"):
            assert _without_words(store.ask(q.ListNotes(prefix))) == _without_words(model.notes(prefix))
        assert [store.ask(q.GetNote(name)) for name in NOTES] == [model.note(name) for name in NOTES]
        assert store.ask(q.GetHistories([*self.ids])) == [model.history(id) for id in self.ids]
        leases = [job.lease_until for job in jobs if job.lease_until is not None]
        assert not leases or (store.ask(q.GetNextLease()) or 0) <= min(leases)
        store.apply([c.Expire(10**6)])  # the next due times depend on earlier commands
        assert sorted(store.died(TOPICS)) == sorted(model.died(TOPICS))
        topics, known = store.ask(q.ListTopics()), model.topics()
        assert [topic[:2] for topic in topics] == [topic[:2] for topic in known]
        for found, ever in zip(topics, known, strict=True):  # a job that its own put replaced may have left no trace
            have = {job.priority for job in jobs if job.topic == found.name}
            assert have - {0} <= {*found.priorities} <= {*ever.priorities}
        assert store.ask(q.GetNextDues(TOPICS)) == model.next_dues(TOPICS)
        for topic in TOPICS:
            assert store.ask(q.ListFirstDue(topic, 5)) == model.first_due(topic, 5)


class ModelTests(StoreTests):
    """Random operations: every outcome, and all contents, are compared with the model's."""

    def recount(self) -> None:
        """Check, during random operations, that data which the store keeps twice agrees."""
        assert self.store.verify() == []

    def test_random_operations_end_as_in_the_model(self) -> None:
        for seed in (0, 1, *(randrange(10**6) for _ in range(2))):
            self.clock = ManualClock(wall=NOW)
            self.store.close()
            self.store = self.make_store(self.clock)
            self.run_random(seed)

    def run_random(self, seed: int) -> None:
        """Apply random operations, and compare the contents now and then."""
        random = Random(seed)
        pair = Pair(self, random)
        for number in range(STEPS):
            try:
                pair.step()
                if number % LOOK == LOOK - 1:
                    pair.look()
                    self.recount()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {number}: {error}") from error
            self.pass_time(random.choice((0, 0, 1, 5, 20)))


def _without_words(notes: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Return notes without those of dead jobs and empty ones of limits, which depend on earlier commands."""
    empty = {name for name, value in notes if name.startswith("limit:") and not value}
    return [note for note in notes if note[0] not in empty and not note[0].startswith("dead:")]
