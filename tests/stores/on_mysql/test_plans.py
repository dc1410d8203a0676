"""How MySQL and MariaDB find what is asked for: what is far from due must cost nothing."""

from __future__ import annotations

import pytest

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetForecast, GetHistories, GetJob, GetNextDues, GetPage, GetStates, ListEnded, ListJobs
from pywheel.stores import Filter, open
from pywheel.stores.mysql.connection import Timed

TERMS = ops.ClaimPolicy(60_000, 3)
EVERY = 2**32 - 1
TABLES = ("job", "finished")


class Plans:
    """What the server does for the statements that are sent to it."""

    def __init__(self, monkeypatch):
        self.texts = []
        ask = Timed.ask

        def explained(asked, texts):
            written = ("SELECT", "UPDATE", "INSERT", "DELETE")
            self.texts += [text for text in texts if text.startswith(written) and "pywheel_member" not in text]
            return ask(asked, texts)

        monkeypatch.setattr(Timed, "ask", explained)

    def whole(self, store):
        """Return the plans that read a whole table of jobs; forget the statements."""
        texts, self.texts = self.texts, []
        found = []
        with store._use() as asked:
            for text in texts:
                [plan] = asked.ask([f"EXPLAIN {text}"])
                if any(_is_whole(line) for line in plan if line[1] != "INSERT"):
                    found.append((text, *plan))
        assert texts
        return found


def _is_whole(line):
    """Whether a line of a plan is a walk through all of a table of jobs, or of an index of it."""
    names = [word for word in line if isinstance(word, str)]
    return ("ALL" in names or "index" in names) and line[2] in ("j", "f", *(f"pywheel_{name}" for name in TABLES))


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
def test_what_is_asked_for_is_found_by_an_index_without_statistics(mariadb_server, monkeypatch, name, backlog):
    with open(mariadb_server.url()) as store:
        [ids] = store.apply([ops.Put(tuple(NewJob("t", b"", n, "k" if not n else None) for n in range(100)))])
        for first in range(0, backlog, 1_000):
            store.apply([ops.Put(tuple(NewJob("t", b"", first + n) for n in range(1_000)))])
        plans = Plans(monkeypatch)
        CALLS[name](store, ids)
        assert plans.whole(store) == []
