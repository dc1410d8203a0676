"""A transaction that another one came before."""

import threading

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetNote
from pywheel.stores import open
from tests.jobs.waiting import until
from tests.stores.server import store_of


def test_after_a_conflict_no_statement_is_missing_that_would_have_been_prepared(postgres_server):
    def step(name):
        return store.apply([ops.Put((NewJob("t", b"", 0),), name), ops.SetNote(name, b"v"), ops.SetNote(name, b"w")])

    url = postgres_server.url()
    table = f"{store_of(url)}.pywheel_nonce"
    with open(url) as store, postgres_server.connect() as other, postgres_server.connect() as admin:
        store.apply([ops.Cancel(10**9)])  # so that a rollback is prepared too
        step("a")
        with other.transaction():
            other.execute(f"INSERT INTO {table} (nonce, at, ids) VALUES ('b', 0, '[7]')")
            thread = threading.Thread(target=step, args=("b",))
            thread.start()
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            until(lambda: admin.execute(waiting).fetchone() == (1,))  # a transaction is told the same all the time
        thread.join()
        assert store.ask(GetNote("b")) == b"w"
        assert step("b")[0] == [7]
        assert step("c")[0] != [7]
