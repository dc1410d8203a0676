"""How PostgreSQL finds what is asked for: what is far from due must cost nothing."""

from __future__ import annotations

import pytest

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import (
    GetForecast,
    GetHistories,
    GetJob,
    GetNextDues,
    GetNextLease,
    GetPage,
    GetStates,
    ListEnded,
    ListJobs,
)
from pywheel.stores import Filter, open
from pywheel.stores.postgres.connection import Timed
from pywheel.testing import ManualClock

TERMS = ops.ClaimPolicy(60_000, 3)
NOW = 1_700_000_000_000
EVERY = 2**32 - 1
TABLES = ("job", "finished", "attempt")


class Plans:
    """What the server does for the statements that are sent to it."""

    def __init__(self, monkeypatch):
        self.texts = []
        execute = Timed.execute

        def explained(asked, query, values=None, **options):
            if isinstance(query, str) and "pywheel_" in query and not query.startswith("EXPLAIN"):
                self.texts.append((query, values))
            return execute(asked, query, values, **options)

        monkeypatch.setattr(Timed, "execute", explained)

    def whole(self, store):
        """Return the plans that read a whole table of jobs; forget the statements."""
        found = []
        texts, self.texts = self.texts, []
        with store._use() as asked:
            for text, values in texts:
                plan = [line for (line,) in asked.execute(f"EXPLAIN {text}", values)]
                wrong = any(
                    "Seq Scan" in line and any(f"pywheel_{table} " in line for table in TABLES) for line in plan
                )
                found += [(text, *plan)] if wrong else []
        assert texts
        return found


CALLS = {
    "get": lambda store, ids: store.ask(GetJob(ids[0])),
    "get by key": lambda store, ids: store.ask(GetJob(("t", "k"))),
    "states": lambda store, ids: store.ask(GetStates(ids[:50])),
    "histories": lambda store, ids: store.ask(GetHistories(ids[:50])),
    "jobs of a topic": lambda store, ids: store.ask(ListJobs(Filter("t"), 0, 9)),
    "jobs of a key": lambda store, ids: store.ask(ListJobs(Filter(key="k"), 0, 9)),
    "running": lambda store, ids: store.ask(ListJobs(Filter(state=State.RUNNING), 0, 9)),
    "page by due": lambda store, ids: store.ask(GetPage(Filter("t", due_from=0))),
    "next_dues": lambda store, ids: store.ask(GetNextDues(["t"])),
    "claim by the index": lambda store, ids: store.apply([ops.Claim("t", (), TERMS, "w", 50, limit=50)]),
    "forecast": lambda store, ids: store.ask(GetForecast([0, 100, 10**13], "t")),
    "recent": lambda store, ids: store.ask(ListEnded("t", 0, 9)),
    "next_lease": lambda store, ids: store._read_lease(),
    "cancel": lambda store, ids: store.apply([ops.Cancel(ids[1]), ops.Cancel(ids[2])]),
    "put with a key": lambda store, ids: store.apply([ops.Put((NewJob("t", b"", 10**13, "k", replace=True),))]),
    "claim": lambda store, ids: store.apply([ops.Claim("t", tuple(ids[-50:]), TERMS, "w", 50)]),
    "reserve": lambda store, ids: store.apply([ops.Reserve("t", 10, TERMS, "w")]),
    "settle": lambda store, ids: store.apply(
        [ops.Ack(1, 1), ops.Nack(2, 1, 0, "e"), ops.Release(3, 1), ops.Touch(4, 1, 9)]
    ),
    "expire": lambda store, ids: store.apply([ops.Expire(9)]),
}


@pytest.mark.parametrize("backlog", [0, 5_000])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_asked_for_is_found_by_an_index_without_statistics(postgres_server, monkeypatch, name, backlog):
    with open(postgres_server.url()) as store:
        [ids] = store.apply([ops.Put(tuple(NewJob("t", b"", n, "k" if not n else None) for n in range(100)))])
        for first in range(0, backlog, 1_000):
            store.apply([ops.Put(tuple(NewJob("t", b"", first + n) for n in range(1_000)))])
        plans = Plans(monkeypatch)
        CALLS[name](store, ids)
        assert plans.whole(store) == []


@pytest.mark.parametrize("topics", [1, 3, 30])
def test_the_first_end_of_a_lease_is_that_of_any_topic_and_priority(postgres_server, topics):
    with open(postgres_server.url(), clock=ManualClock(wall=NOW)) as store:
        for number in range(topics):
            store.apply([ops.Put((NewJob(f"t{number}", b"", 0, priority=-number % 10),))])
            store.apply([ops.Reserve(f"t{number}", 1, ops.ClaimPolicy(60_000 - number, 3, slack=0), "w")])
        assert store.ask(GetNextLease()) == NOW + 60_000 - (topics - 1)


def test_a_look_for_the_first_lease_passes_over_none_that_ended_before(postgres_server):
    with open(postgres_server.url()) as store, postgres_server.connect() as other:
        store.apply([ops.Put((NewJob("t", b"", 0),))])
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM pg_class")  # from now on no entry of an index can go
        for _ in range(5):
            store.apply([ops.Put(tuple(NewJob("t", b"", 0) for _ in range(1_000)))])
            [jobs] = store.apply([ops.Reserve("t", 1_000, TERMS, "w")])
            store.apply([ops.Ack(job.id, job.claims) for job in jobs])
        look = store.dialect.text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT {store.dialect.first_lease}")
        with store._use() as asked:
            [[[plan]]] = asked.execute(look, {"since": 10**15, "now": None}).fetchall()
    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 20
