"""The query plans of databases: far jobs must cost nothing."""

from __future__ import annotations

import pytest

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import (
    CountJobs,
    GetForecast,
    GetHistories,
    GetJob,
    GetNextDues,
    GetPage,
    GetStates,
    ListClaims,
    ListEnded,
    ListJobs,
)  # fmt: skip
from pywheel.stores import Filter, mysql, open, postgres
from tests.stores.calls import TERMS, put_many


class OfMysql:
    """What the server does for the statements that are sent to it."""

    def __init__(self, monkeypatch):
        self.texts = []
        ask = mysql.connection.Timed.ask

        def explained(asked, texts):
            written = ("SELECT", "UPDATE", "INSERT", "DELETE")
            self.texts += [text for text in texts if text.startswith(written) and "pywheel_member" not in text]
            return ask(asked, texts)

        monkeypatch.setattr(mysql.connection.Timed, "ask", explained)

    def plan(self, connection, text):
        """Return the plan of a statement if it walks through all of a table of jobs, or of an index of it."""
        [plan] = connection.ask([f"EXPLAIN {text}"])
        return plan if any(self._is_whole(line) for line in plan if line[1] != "INSERT") else None

    @staticmethod
    def _is_whole(line):
        names = [word for word in line if isinstance(word, str)]
        return ("ALL" in names or "index" in names) and line[2] in ("j", "f", "pywheel_job", "pywheel_finished")


class OfPostgres:
    """The same of PostgreSQL."""

    def __init__(self, monkeypatch):
        self.texts = []
        ask = postgres.connection.Timed.ask

        def explained(connection, asked):
            self.texts += [(text, values) for text, values in asked if "pywheel_" in text]
            return ask(connection, asked)

        monkeypatch.setattr(postgres.connection.Timed, "ask", explained)

    def plan(self, connection, asked):
        text, names, _ = postgres.pipeline.numbered(asked[0])
        connection.execute(f"PREPARE one AS {text}")
        nulls = f"({', '.join(['NULL'] * len(names))})" if names else ""
        plan = [line for (line,) in connection.execute(f"EXPLAIN EXECUTE one{nulls}")]  # for any values, as for a store
        connection.execute("DEALLOCATE one")
        tables = [f"pywheel_{table} " for table in ("job", "finished", "attempt")]
        whole = any("Seq Scan" in line and any(table in line for table in tables) for line in plan)
        sifted = any("Filter: " in line and "(key = " in line for line in plan)  # others were read
        sifted |= any("(state = " in line and "(id = " in line for line in plan)  # all of that state were
        sifted |= any("Join Filter: " in line and "w." in line for line in plan)  # all were, for each of a list
        sifted |= any("Aggregate" in one and "(state = 0)" in two for one, two in zip(plan, plan[2:], strict=False))
        return plan if whole or sifted else None


ENDED = {
    "those that ended last": lambda store: store.ask(ListEnded("t", 0, 9)),
    "the dead that ended last": lambda store: store.ask(ListEnded("t", 0, 9, state=State.DEAD)),
    "none that ended by then": lambda store: store.ask(ListEnded("t", 0, 9, 1)),
    "none that ended since": lambda store: store.ask(ListEnded("t", 10**13, 9)),
    "none that ended long ago": lambda store: store.apply([ops.Purge(State.CANCELLED, 10**12, None, 9)]),
    "none of a topic that ended long ago": lambda store: store.apply([ops.Purge(State.CANCELLED, 10**12, "t", 9)]),
}


def test_mariadb_reads_few_rows_however_many_jobs_have_ended(mariadb_server):
    with open(mariadb_server.url()) as store, store._use() as connection:

        def rows_read():
            [rows] = connection.ask(["SHOW GLOBAL STATUS LIKE 'Handler_read%'"])
            return sum(int(number) for _, number in rows)

        store.apply([ops.Cancel(id) for id in put_many(store, 3_000)])
        read = {}
        for name, call in ENDED.items():
            before = rows_read()
            call(store)
            read[name] = rows_read() - before
        assert max(read.values()) < 1_000, read


CALLS = {
    "get": lambda store, ids: store.ask(GetJob(ids[0])),
    "get by key": lambda store, ids: store.ask(GetJob(("t", "k"))),
    "states": lambda store, ids: store.ask(GetStates(ids[:50])),
    "histories": lambda store, ids: store.ask(GetHistories(ids[:50])),
    "jobs of a topic": lambda store, ids: store.ask(ListJobs(Filter("t"), 0, 9)),
    "jobs of a key": lambda store, ids: store.ask(ListJobs(Filter(key="k"), 0, 9)),
    "running": lambda store, ids: store.ask(ListJobs(Filter(state=State.RUNNING), 0, 9)),
    "dead": lambda store, ids: store.ask(ListJobs(Filter("t", State.DEAD), 0, 9)),
    "edit": lambda store, ids: store.apply([ops.Edit(ids[4], body=b"x")]),
    "delete": lambda store, ids: store.apply([ops.Delete(ids[4])]),
    "purge": lambda store, ids: store.apply([ops.Purge(State.DONE, 10**9, "t", 9)]),
    "counts": lambda store, ids: store.ask(CountJobs()),
    "page by due": lambda store, ids: store.ask(GetPage(Filter("t", due_from=0))),
    "next_dues": lambda store, ids: store.ask(GetNextDues(["t"])),
    "claim by the index": lambda store, ids: store.apply([ops.Claim("t", (), TERMS, "w", 50, limit=50)]),
    "forecast": lambda store, ids: store.ask(GetForecast([0, 100, 10**13], "t")),
    "recent": lambda store, ids: store.ask(ListEnded("t", 0, 9)),
    "recent, by then": lambda store, ids: store.ask(ListEnded("t", 0, 9, 10**13)),
    "next_lease": lambda store, ids: store._read_lease(),
    "cancel": lambda store, ids: store.apply([ops.Cancel(ids[1]), ops.Cancel(ids[2])]),
    "cancel by key": lambda store, ids: store.apply([ops.Cancel(("t", "k"))]),
    "retry by key": lambda store, ids: store.apply([ops.Retry(("t", "k"), 10**13)]),
    "put with a key": lambda store, ids: store.apply([ops.Put((NewJob("t", b"", 10**13, "k", replace=True),))]),
    "put many with keys": lambda store, ids: store.apply(
        [ops.Put(tuple(NewJob("t", b"", 10**13, f"new {n}") for n in range(50)))]
    ),
    "claim": lambda store, ids: store.apply([ops.Claim("t", tuple(ids[-50:]), TERMS, "w", 50)]),
    "claim of some that are gone": lambda store, ids: store.apply([ops.Claim("t", (ids[3], 10**9), TERMS, "w", 50)]),
    "due now": lambda store, ids: list(store.notifier("w")._due_now(ids[:50])),
    "claims of a worker": lambda store, ids: store.ask(ListClaims("w")),
    "reserve": lambda store, ids: store.apply([ops.Reserve("t", 10, TERMS, "w")]),
    "settle": lambda store, ids: store.apply(
        [ops.Ack(1, 1), ops.Nack(2, 1, 0, "e"), ops.Release(3, 1), ops.Touch(4, 1, 9)]
    ),
    "expire": lambda store, ids: store.apply([ops.Expire(9)]),
}


@pytest.mark.parametrize(
    ("kind", "backlog"),
    [("postgres", 5), ("postgres", 100), ("postgres", 5_000), ("mariadb", 5_000)],  # PostgreSQL keeps its first plan
)
def test_what_is_asked_for_is_found_by_an_index_without_statistics(request, monkeypatch, kind, backlog):
    with open(request.getfixturevalue(f"{kind}_server").url()) as store:
        jobs = tuple(NewJob("t", b"", n, f"{n}" if n % 2 else None if n else "k") for n in range(backlog))
        [ended] = store.apply([ops.Put(jobs)])
        store.apply([ops.Cancel(id) for id in ended])
        [ids] = store.apply([ops.Put(jobs)])
        plans = (OfPostgres if kind == "postgres" else OfMysql)(monkeypatch)
        whole = []
        for name, call in CALLS.items():
            plans.texts = []
            call(store, ids)
            texts, plans.texts = plans.texts, []
            assert texts, name
            with store._use() as connection:
                whole += [(name, text, plan) for text in texts if (plan := plans.plan(connection, text))]
        assert whole == []
