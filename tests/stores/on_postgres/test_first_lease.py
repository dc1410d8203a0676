"""The first end of a lease: its owner, and the cost of a look for it."""

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.stores import open

TERMS = ops.ClaimPolicy(60_000, 3)
NOW = 1_700_000_000_000


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
