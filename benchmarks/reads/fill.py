"""A store full of jobs: half of them in one topic, all states mixed, as years of use leave them."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as c
from pywheel.jobs.job import Attempt, Imported, Job, Outcome
from pywheel.stores import Store

BIG = "big"
"""The topic of half of the jobs."""
HOT = "hot"
"""A key that a thousandth of all finished jobs of the big topic had."""
RARE = "a rare error"
HOUR = 3_600_000
_BATCH = 1_000
_BODY = b'{"order": 1234567890, "what": "close it, if nobody has paid by then", "by": "2026-01-01T00:00:00Z"}'
_RUNNING = 200


def topics_of(count: int) -> list[str]:
    """Return the names of `count` topics, the big one first."""
    return [BIG, *(f"topic{n:04}" for n in range(1, count))]


def fill(store: Store, jobs: int, topics: int) -> None:
    """Put `jobs` jobs: 40 % delayed, half of these due within the hour, 50 % done, 5 % dead, 5 % cancelled."""
    names, draw, now = topics_of(topics), random.Random(1), store.clock.wall()
    began = time.perf_counter()
    for done, batch in enumerate(_batches(names, draw, now, jobs // _BATCH)):
        store.apply(batch)
        if done % 500 == 499:
            rate = (done + 1) * _BATCH / (time.perf_counter() - began)
            print(f"  {(done + 1) * _BATCH} jobs, {rate:.0f}/s", file=sys.stderr, flush=True)
    policy = c.ClaimPolicy(ttr=24 * HOUR, max_attempts=3)
    store.apply([c.Put(tuple(NewJob(name, _BODY, now - 1) for name in names[:20] for _ in range(10)))])
    store.apply([c.Reserve(name, _RUNNING // 20, policy, "reader") for name in names[:20]])


def _batches(names: list[str], draw: random.Random, now: int, count: int) -> Iterator[list[c.Command[list[int]]]]:
    for batch in range(count):
        some = [BIG if draw.random() < 0.5 else draw.choice(names) for _ in range(_BATCH)]
        split = _BATCH * 2 // 5
        waiting = tuple(_waiting(name, draw, now, f"{batch}.{n}") for n, name in enumerate(some[:split]))
        ended = tuple(_ended(name, draw, now, f"{batch}.{n + split}") for n, name in enumerate(some[split:]))
        yield [c.Put(waiting), c.Import(ended)]


def _waiting(topic: str, draw: random.Random, now: int, name: str) -> NewJob:
    far = HOUR if draw.random() < 0.5 else 720 * HOUR
    return NewJob(topic, _BODY, now + draw.randrange(HOUR // 60, far), name if draw.random() < 0.1 else None)


def _ended(topic: str, draw: random.Random, now: int, name: str) -> Imported:
    chance, when = draw.random(), now - draw.randrange(1, 720 * HOUR)
    key = HOT if topic == BIG and draw.random() < 0.001 else name if draw.random() < 0.1 else None
    state, outcome, error = State.DONE, Outcome.DONE, None
    if chance < 1 / 12:
        state, outcome = State.DEAD, Outcome.FAILED
        error = RARE if draw.random() < 0.001 else f"ValueError: order {draw.randrange(9)} is none"
    elif chance < 2 / 12:
        state, outcome = State.CANCELLED, Outcome.CANCELLED
    cancelled = state is State.CANCELLED
    last = Attempt(
        1, 0 if cancelled else 1, None if cancelled else when - 50, when, outcome, None if cancelled else "w", error
    )
    job = Job(0, topic, _BODY, when - 60, when - HOUR, state, key, claims=1, attempt=last.attempt)
    return Imported(job, (last,))
