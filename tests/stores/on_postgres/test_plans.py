"""How PostgreSQL finds what is asked for: what is far from due must cost nothing."""

from __future__ import annotations

from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import pytest

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.stores import open
from pywheel.stores.postgres.statements import statements

GIVEN = {"now": None, "topic": 1, "topics": [1], "name": "w", "behind": 0, "late": 0, "limit": 9, "age": 0, "state": 0}


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("beat", "(topic = t.id)"),
        ("lock_due_of_topic", "(due <= "),
        ("lock_lost", "(lease <= "),
        ("lock_old", "(ended <= "),
    ],
)
def test_what_is_due_by_the_servers_clock_is_found_by_its_time(postgres_server, name, condition):
    url = postgres_server.url()
    schema = parse_qs(urlsplit(url).query)["schema"][0]
    with open(url), closing(postgres_server.connect()) as connection:
        connection.execute("SET enable_seqscan = off")
        text = statements(f'"{schema}".pywheel_')[name]
        plan = [line for (line,) in connection.execute(f"EXPLAIN {text}", GIVEN)]
    assert any("Index Cond" in line and condition in line for line in plan), "\n".join(plan)


@pytest.mark.parametrize("name", ["ack", "ack_kept", "begin_held", "touch", "claim"])
def test_a_workers_step_finds_each_job_by_its_id(postgres_server, name):
    url = postgres_server.url()
    schema = parse_qs(urlsplit(url).query)["schema"][0]
    values = {"now": None, "topic": 1, "ids": "{1,2}", "claims": "{1,1}", "ttrs": "{1,1}", "count": 2, "bytes": 9}
    values |= {"begin": 1, "ttr": 9, "slack": 1, "hold": 1, "limit": 3, "backoff": "{}", "jitter": 0.0, "worker": "w"}
    values |= {"results": [b"1", b"2"]}
    with open(url) as store, store._use() as connection:
        text = statements(f'"{schema}".pywheel_')[name]
        plan = [line for (line,) in connection.execute(f"EXPLAIN {text}", values)]
    scans = [line for line in plan if " on " in line and "pywheel_" in line and "Index" not in line]
    assert all(line.lstrip(" ->").startswith(("Insert on", "Delete on", "Update on")) for line in scans), "\n".join(
        plan
    )


def test_a_claim_that_is_planned_beside_a_backlog_reads_no_more_than_its_jobs(postgres_server):
    """Of a table that has grown since it was looked at last, all of a topic may seem to be no more than a few jobs."""
    url = postgres_server.url()
    schema = parse_qs(urlsplit(url).query)["schema"][0]
    values = {"now": None, "topic": 1, "ids": [*range(1, 501)], "count": 500, "bytes": 9, "begin": 1, "ttr": 9}
    values |= {"slack": 1, "hold": 1, "limit": 3, "backoff": "{}", "jitter": 0.0, "worker": "w"}
    with open(url) as store, store._use() as connection:
        store.apply([ops.Put(tuple(NewJob("t", b"", 0) for _ in range(2_000)))])
        text = statements(f'"{schema}".pywheel_')["claim"]
        plan = [line for (line,) in connection.execute(f"EXPLAIN {text}", values)]
    first = next(n for n, line in enumerate(plan) if "Scan" in line and " on pywheel_due" in line)
    assert "(id = " in plan[first + 1], "\n".join(plan)


READS = [
    *(f"page_{name}" for name in ("all", "of_topic", "of_key", "of_key_anywhere", "delayed", "delayed_anywhere")),
    *(f"page_{name}" for name in ("running", "finished", "finished_anywhere", "due", "due_anywhere")),
    *("forecast", "forecast_few", "oldest", "recent"),
]


@pytest.mark.parametrize("backlog", [0, 5_000])
@pytest.mark.parametrize("name", READS)
def test_what_people_read_is_found_by_an_index_without_statistics(postgres_server, name, backlog):
    url = postgres_server.url()
    schema = parse_qs(urlsplit(url).query)["schema"][0]
    values = {"now": 1, "topic": 1, "topics": [1], "state": 2, "key": "k", "due": 0, "id": 0, "until": 9, "limit": 100}
    values |= {"firsts": [1], "ends": [2], "first": 1, "end": 2, "share": 9, "most": 9, "since": 1, "rows": 9}
    with open(url) as store, store._use() as connection:
        for first in range(0, backlog, 1_000):
            store.apply([ops.Put(tuple(NewJob("t", b"", first + n) for n in range(1_000)))])
        texts = statements(f'"{schema}".pywheel_')
        for text in [texts[name], *([texts[f"{name}_down"]] if name.startswith("page_") else [])]:
            plan = [line for (line,) in connection.execute(f"EXPLAIN {text}", values)]
            whole = [line for line in plan if "Seq Scan" in line and "pywheel_topic" not in line]
            assert not whole, "\n".join(plan)


@pytest.mark.parametrize("name", ["states", "results", "history", "insert_deduped"])
def test_a_finished_job_is_found_by_all_of_its_key_beside_many(postgres_server, name):
    """Of a table that has grown since it was looked at last, all that is done may seem to be a few jobs."""
    url = postgres_server.url()
    schema = parse_qs(urlsplit(url).query)["schema"][0]
    with open(url) as store, store._use() as connection:
        [ids] = store.apply([ops.Put(tuple(NewJob("t", b"", 0) for _ in range(500)))])
        [jobs] = store.apply([ops.Reserve("t", 500, ops.Terms(60_000, 3), "w")])
        store.apply([ops.Ack(job.id, job.claims, b"r") for job in jobs])
        text = statements(f'"{schema}".pywheel_')[name]
        values = [[1], ["k"], [ids[0]], [0]] if name == "insert_deduped" else {"ids": ids[:50], "now": None}
        plan = [line for (line,) in connection.execute(f"EXPLAIN {text}", values)]
    found = [number for number, line in enumerate(plan) if " on pywheel_finished" in line]
    assert found
    assert all("(state = " in plan[number + 1] and "(id = " in plan[number + 1] for number in found), "\n".join(plan)
