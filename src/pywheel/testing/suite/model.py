"""Random operations: every outcome as the store in memory has it, and all that is kept as a recount finds it."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from ..._errors import PywheelError
from ...clock import ManualClock
from ...jobs import commands as c
from ...jobs.job import Attempt, Counts, Due, Imported, Job, NewJob, Outcome, State
from ...stores.contract import Filter, Span
from ...stores.memory import MemoryStore
from .base import ALL, NOW, START, StoreTests

__all__ = ["ModelTests"]

TOPICS = ("a", "b")
STEPS = 150
LAST = {State.DONE: Outcome.DONE, State.CANCELLED: Outcome.CANCELLED, State.DEAD: Outcome.FAILED}


class Pair:
    """A store and the model, side by side. Their ids may differ: jobs are told apart by the order of their puts."""

    def __init__(self, test: StoreTests, random: Random) -> None:
        self.test, self.random = test, random
        self.model = MemoryStore(clock=test.clock)
        self.ids: dict[int, int] = {}  # the model's: the store's
        self.receipts: list[tuple[int, int]] = [(1, 1)]  # the model's

    def theirs(self, id: int) -> int:
        """Return the store's id for one of the model's."""
        return self.ids.get(id, 10**12)

    def job(self, job: Job) -> Job:
        """Return a job of the model as the store should have it."""
        return job._replace(id=self.theirs(job.id))

    def due(self, due: Due) -> Due:
        """Return the same of a window's job."""
        return due._replace(id=self.theirs(due.id))

    # ---- commands ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Apply some random commands to both, and compare the outcomes."""
        pairs = [self.command() for _ in range(self.random.choice((1, 1, 1, 2, 5)))]
        expected = self.model.apply([model for model, _ in pairs])
        # One by one as often as together: many of a kind take another way than one.
        if self.random.random() < 0.5:
            found = [outcome for _, theirs in pairs for outcome in self.test.store.apply([theirs])]
        else:
            found = self.test.store.apply([theirs for _, theirs in pairs])
        for (command, _), mine, theirs in zip(pairs, expected, found, strict=True):
            self.compare(command, mine, theirs)
        self.test.reopen()

    def compare(self, command: c.Command[Any], mine: Any, theirs: Any) -> None:
        """Compare two outcomes."""
        if isinstance(mine, PywheelError):
            assert type(theirs) is type(mine), (command, mine, theirs)
        elif isinstance(command, c.Put | c.Import):
            self.ids.update(zip(mine, theirs, strict=True))
        elif isinstance(command, c.Reserve):
            self.receipts += [(job.id, job.claims) for job in mine]
            assert theirs == [self.job(job) for job in mine], command
        elif isinstance(command, c.Claim):
            self.receipts += [(job.id, job.claims) for job in mine.jobs]
            expected = c.Claimed([self.job(job) for job in mine.jobs], mine.begun, [*map(self.due, mine.left)], mine[3])
            assert theirs == expected, command
        elif isinstance(command, c.Expire):
            assert theirs.next_lease == mine.next_lease  # others may have ended some before, in either store
        else:
            assert theirs == mine, (command, theirs, mine)

    def command(self) -> tuple[c.Command[Any], c.Command[Any]]:
        """Return a random command, as for the model and as for the store."""
        kinds = (
            [self.put] * 4
            + [self.imports]
            + [self.by_ref] * 3
            + [self.claim, self.reserve] * 2
            + [self.settle] * 4
            + [self.expire, self.pause, self.purge]
        )
        return self.random.choice(kinds)()

    def put(self) -> tuple[c.Command[Any], c.Command[Any]]:
        random = self.random
        mine, theirs = [], []
        for _ in range(random.choice((0, 1, 1, 1, 2, 30))):
            job = NewJob(
                random.choice(TOPICS),
                b"%d" % random.randrange(100),
                self.when(),
                random.choice((None, None, "k", "l")),
                random.choice((None, None, 40)),
                random.choice((None, 1, 2)),
                random.choice((None, {"h": "1"})),
                random.random() < 0.5,
                random.choice((None, None, 20)),
            )
            id, claims = random.choice(self.receipts)
            handed = random.random() < 0.5
            mine.append(job._replace(parent=(id, claims) if handed else None))
            theirs.append(job._replace(parent=(self.theirs(id), claims) if handed else None))
        nonce = random.choice((None, None, f"n{random.randrange(20)}"))
        return c.Put(tuple(mine), nonce), c.Put(tuple(theirs), nonce)

    def imports(self) -> tuple[c.Command[Any], c.Command[Any]]:
        random = self.random
        jobs = []
        for _ in range(random.choice((0, 1, 3))):
            state = random.choice([State.DELAYED, *LAST])
            outcomes = random.choices([Outcome.FAILED, Outcome.LOST, Outcome.RELEASED], k=random.randrange(3))
            outcomes += [LAST[state]] if state in LAST else []
            times = sorted(self.when() for _ in outcomes)
            rows = [
                Attempt(claim, claim, None, when, outcome, "w", "e3" if outcome is Outcome.FAILED else None)
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
            )
            jobs.append(Imported(job, tuple(rows), random.random() < 0.3))
        command = c.Import(tuple(jobs), random.choice((None, f"n{random.randrange(20)}")))
        return command, command

    def by_ref(self) -> tuple[c.Command[Any], c.Command[Any]]:
        random = self.random
        kind = random.choice((c.Cancel, c.Reschedule, c.Retry, c.Delete))
        more: tuple[Any, ...] = () if kind in (c.Cancel, c.Delete) else (self.when(), random.choice((None, 30)))
        if random.random() < 0.3:
            name = (random.choice(TOPICS), random.choice("kl"))
            return kind(name, *more), kind(name, *more)
        id = random.randrange(len(self.ids) + 1)
        return kind(id, *more), kind(self.theirs(id), *more)

    def claim(self) -> tuple[c.Command[Any], c.Command[Any]]:
        ids = [self.random.randrange(len(self.ids) + 1) for _ in range(self.random.choice((1, 5, 20)))]
        most = self.random.choice((0, 1, 3, 10**6))
        rest = (self.terms(), "w", self.random.randrange(4), self.random.randrange(3), most)
        topic = self.random.choice(TOPICS)
        return c.Claim(topic, tuple(ids), *rest), c.Claim(topic, tuple(map(self.theirs, ids)), *rest)

    def reserve(self) -> tuple[c.Command[Any], c.Command[Any]]:
        command = c.Reserve(self.random.choice(TOPICS), self.random.randrange(5), self.terms(), "v")
        return command, command

    def settle(self) -> tuple[c.Command[Any], c.Command[Any]]:
        random = self.random
        id, claims = random.choice(self.receipts[-12:])
        kind, more = random.choice(
            [
                (c.Ack, ()),
                (c.Nack, (random.choice((None, 0, 15)), random.choice((None, "e1", "e2")))),
                (c.Release, ()),
                (c.Touch, (25,)),
                (c.Begin, (35,)),
            ]
        )
        make: Any = kind
        return make(id, claims, *more), make(self.theirs(id), claims, *more)

    def expire(self) -> tuple[c.Command[Any], c.Command[Any]]:
        return c.Expire(1_000), c.Expire(1_000)

    def pause(self) -> tuple[c.Command[Any], c.Command[Any]]:
        command = c.Pause(self.random.choice(TOPICS), self.random.random() < 0.3)
        return command, command

    def purge(self) -> tuple[c.Command[Any], c.Command[Any]]:
        states, topics = (State.DONE, State.DEAD, State.CANCELLED), (None, *TOPICS)
        command = c.Purge(
            self.random.choice(states), self.random.choice((0, 10, 50)), self.random.choice(topics), 1_000
        )
        return command, command

    def when(self) -> int:
        return self.test.clock.wall() + self.random.randrange(-20, 40)

    def terms(self) -> c.Terms:
        return c.Terms(self.random.choice((20, 60)), 3, self.random.choice(((), (5, 9))), 0.0, 2, 15)

    # ---- looking ----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Compare what both have, and what the store keeps with what it holds."""
        model, store = self.model, self.test.store
        jobs = [self.job(job) for job in model.jobs(Filter(), 0, 10**9)]
        assert store.jobs(Filter(), 0, 10**9) == jobs
        assert [store.get(job.id) for job in jobs] == jobs
        assert store.counts() == model.counts() == self.recount(jobs)
        for state in State:
            assert store.jobs(Filter(state=state), 0, 10**9) == [job for job in jobs if job.state is state]
            fit = [job for job in jobs if (job.topic, job.state) == ("a", state)]
            assert store.jobs(Filter("a", state), 0, 10**9) == fit
        for key in "kl":
            assert store.jobs(Filter(key=key), 0, 10**9) == [job for job in jobs if job.key == key]
            mine = model.get(("a", key))
            assert store.get(("a", key)) == (mine and self.job(mine))
        for mine_id, id in self.ids.items():
            assert store.history(id) == model.history(mine_id)
        beyond = [Span(topic, ALL, START, NOW) for topic in TOPICS]
        assert store.first_dues(beyond) == model.first_dues(beyond)
        leases = [job.lease_until for job in jobs if job.lease_until is not None]
        assert not leases or (store.next_lease() or 0) <= min(leases)
        for either in (model, store):
            either.apply([c.Expire(10**6)])  # a window alone depends on who has looked
        spans = [Span(topic, ALL, START, NOW + 10**6) for topic in TOPICS]
        assert store.windows(spans, 10**6) == [*map(self.due, model.windows(spans, 10**6))]

    def recount(self, jobs: list[Job]) -> dict[str, Counts]:
        """Count job by job."""
        tally = Counter((job.topic, job.state) for job in jobs)
        names = [topic.name for topic in self.model.topics()]
        return {name: Counts(*(tally[name, state] for state in State)) for name in names}


class ModelTests(StoreTests):
    """Random operations: every outcome as the store in memory has it, and all that is kept as a recount finds it."""

    def recount(self) -> None:
        """Called during random operations: what the store keeps twice is the same both times."""
        assert self.store.verify() == []

    def test_random_operations_end_as_in_the_model(self) -> None:
        for seed in range(6):
            self.clock = ManualClock(wall=NOW)
            self.store.close()
            self.store = self.make_store(self.clock)
            self.run_random(seed)

    def run_random(self, seed: int) -> None:
        """Apply random operations, and look now and then."""
        random = Random(seed)
        pair = Pair(self, random)
        for number in range(STEPS):
            try:
                pair.step()
                if number % 10 == 9:
                    pair.look()
                    self.recount()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {number}: {error}") from error
            self.pass_time(random.choice((0, 0, 1, 5, 20)))
        pair.model.close()
