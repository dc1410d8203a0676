"""Live on a store in a file, from the seed, and note each step before and after it, and what the store holds then.

usage: store_life.py FOLDER LOG SEED STEPS SYNCHRONOUS
"""

import random
import sys
from datetime import timedelta

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.jobs.queries import CountJobs, Filter, GetHistories, ListJobs, ListNotes, ListTopics
from pywheel.stores import open
from pywheel.testing import ManualClock
from tests.faults.notes import NAME, Notes, with_settings

NOW = 1_700_000_000_000
TOPICS = ("a", "b")
LEASE = 10**7  # ms
POLICY = ClaimPolicy(LEASE, 3)


def held(store):
    """Return all that a store holds, as texts."""
    jobs = store.ask(ListJobs(Filter()))
    histories = store.ask(GetHistories([job.id for job in jobs]))
    return [
        *(f"{job} {history}" for job, history in zip(jobs, histories, strict=True)),
        *(f"{name} {counts}" for name, counts in sorted(store.ask(CountJobs()).items())),
        *map(str, store.ask(ListTopics())),
        *map(str, store.ask(ListNotes(""))),
    ]


def deliver_the_rest(store, topics):
    """All that is live is delivered once more, claimed or not, and what is put has an id that nothing had."""
    store.clock.step(timedelta(milliseconds=10 * LEASE))
    jobs = store.ask(ListJobs(Filter()))
    live = sorted(job.id for job in jobs if job.state.live)
    store.apply([ops.Pause(topic, False) for topic in topics])
    ids, *claimed = store.apply(
        [
            ops.Put((NewJob("other", b"", NOW),)),
            *(ops.Reserve(topic, 1_000, POLICY, "next") for topic in (*topics, "other")),
        ]
    )
    assert ids[0] > max((job.id for job in jobs), default=0)
    assert sorted(job.id for some in claimed for job in some) == [*live, *ids]
    assert all(store.apply([ops.Ack(job.id, job.claims) for some in claimed for job in some]))


class Life:
    """Random operations on a store."""

    def __init__(self, folder, notes, seed):
        self.folder = folder
        self.notes = notes
        self.dice = random.Random(seed)
        self.clock = ManualClock(1_000, wall=NOW)
        notes.note(begun="open")
        self.open()
        notes.note(ended="open", held=held(self.store))

    def open(self):
        self.store = open(f"sqlite:///{self.folder}/{NAME}", clock=self.clock)

    def step(self):
        dice, copy = self.dice, f"copy{self.dice.getrandbits(60)}.db"
        commands = [self.command() for _ in range(dice.choice((1, 1, 1, 3)))]
        name, work = dice.choices(
            [
                ("apply", lambda: self.store.apply(commands)),
                ("reopen", self.reopen),
                ("vacuum", lambda: self.store.vacuum(100)),
                ("rewrite", lambda: self.store.rewrite()),
                (copy, lambda: self.store.backup(f"{self.folder}/{copy}")),
            ],
            (60, 4, 1, 1, 2),
        )[0]
        self.notes.note(begun=name)
        work()
        self.notes.note(ended=name)
        self.notes.note(held=held(self.store))

    def reopen(self):
        self.store.close()
        self.open()

    def command(self):
        dice, topic = self.dice, self.dice.choice(TOPICS)
        jobs = self.store.ask(ListJobs(Filter()))
        some = dice.choice(jobs) if jobs else None
        ref = some.id if some else 1
        running = [job for job in jobs if job.state is State.RUNNING]
        claim = dice.choice(running) if running else None
        receipt = (claim.id, claim.claims) if claim else (1, 1)
        return dice.choice(
            [
                ops.Put(tuple(self.job(topic) for _ in range(dice.choice((1, 1, 2, 5))))),
                ops.Put(tuple(self.job(topic) for _ in range(2)), f"nonce {dice.random()}"),
                ops.Put((self.job(topic)._replace(key=dice.choice("klm"), replace=True),)),
                ops.Cancel(ref),
                ops.Edit(ref, NOW + dice.randint(-5, 5)),
                ops.Edit(ref, body=dice.randbytes(50), fields={"priority": 3}),
                ops.Retry(ref, NOW),
                ops.Delete(ref),
                ops.Rewrite(ref, some.body if some else b"", dice.randbytes(50)),
                ops.Reserve(topic, dice.choice((1, 3, 8)), POLICY, "worker"),
                ops.Claim(topic, (), POLICY, "worker", 1, limit=dice.choice((1, 3, 8))),
                ops.Begin(*receipt, LEASE),
                ops.Ack(*receipt),
                ops.Ack(*receipt, b"result"),
                ops.Nack(*receipt, dice.choice((0, 1_000, None)), "it failed"),
                ops.Release(*receipt),
                ops.Touch(*receipt, LEASE + dice.randint(0, 5)),
                ops.Pause(topic, dice.random() < 0.3),
                ops.SetNote(dice.choice("xyz"), dice.choice((None, dice.randbytes(10)))),
                ops.Purge(dice.choice((State.DONE, State.CANCELLED)), 0, None, 2),
            ]
        )

    def job(self, topic):
        size = self.dice.choice((5, 5, 500, 5_000))
        due, priority = NOW - self.dice.randint(0, 5), self.dice.choice((0, 0, 3))
        return NewJob(topic, self.dice.randbytes(size), due, priority=priority)


def main(folder, log, seed, steps, synchronous):
    with_settings(synchronous)
    life = Life(folder, Notes(folder, log), int(seed))
    for _ in range(int(steps)):
        life.step()
    if life.dice.random() < 0.5:
        life.notes.note(begun="close")
        life.store.close()
        life.notes.note(ended="close")


if __name__ == "__main__":
    main(*sys.argv[1:])
