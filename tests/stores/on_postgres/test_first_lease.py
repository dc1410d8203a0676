"""The first end of a lease: its owner, and the cost of a look for it."""

from pywheel.jobs import commands as ops
from pywheel.stores import open
from tests.stores.calls import TERMS, put_many


def test_a_look_for_the_first_lease_passes_over_none_that_ended_before(postgres_server):
    with open(postgres_server.url()) as store, postgres_server.connect() as other:
        put_many(store)
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM pg_class")  # from now on no entry of an index can go
        for _ in range(5):
            put_many(store, 1_000)
            [jobs] = store.apply([ops.Reserve("t", 1_000, TERMS, "w")])
            store.apply([ops.Ack(job.id, job.claims) for job in jobs])
        look = store.dialect.text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT {store.dialect.first_lease}")
        with store._use() as asked:
            [[[plan]]] = asked.execute(look, {"since": 10**15, "now": None}).fetchall()
    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 20
