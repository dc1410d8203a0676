"""Changes inside a transaction of the caller's own, by drivers for asyncio and SQLAlchemy on them."""

import asyncio
import contextlib
import sqlite3
from urllib.parse import urlsplit

import pytest

from pywheel import AsyncJobQueue, BadJob, JobExists, StoreBusy, Worker
from pywheel.jobs.commands import ClaimPolicy, Reserve
from pywheel.jobs.job import State
from tests.jobs.waiting import until
from tests.stores.on_mysql.emptied import emptied

POSTGRES = ("psycopg", "asyncpg", "pool of asyncpg", "postgresql+psycopg", "postgresql+asyncpg")
MYSQL = ("aiomysql", "asyncmy", "mysql+aiomysql", "mysql+asyncmy")
SQLITE = ("aiosqlite", "sqlite+aiosqlite")


class Transactions:
    """A caller's connection: what it runs, begins and ends, whatever its driver calls that."""

    def __init__(self, given, driver, *, begin=None, run=None):
        self.given = given
        """What a program gives as `connection=`."""
        self._driver, self._begin, self._run = driver, begin, run

    async def run(self, text):
        if self._run is not None:
            return await self._run(text)
        async with self._driver.cursor() as cursor:
            await cursor.execute(text)
            return await cursor.fetchall() if cursor.description else None

    async def begin(self):
        if self._begin is not None:
            await self._begin()

    async def commit(self):
        await self._driver.commit()

    async def rollback(self):
        await self._driver.rollback()


class OfAsyncpg(Transactions):
    """asyncpg's transactions are objects."""

    async def begin(self):
        self._transaction = self._driver.transaction()
        await self._transaction.start()

    async def run(self, text):
        return await self._driver.fetch(text)

    async def commit(self):
        await self._transaction.commit()

    async def rollback(self):
        await self._transaction.rollback()


@contextlib.asynccontextmanager
async def psycopg_s(place):
    import psycopg

    async with await psycopg.AsyncConnection.connect(**place) as connection:
        yield Transactions(connection, connection)


@contextlib.asynccontextmanager
async def asyncpg_s(place):
    import asyncpg

    connection = await asyncpg.connect(**place)
    try:
        yield OfAsyncpg(connection, connection)
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def of_a_pool_of_asyncpg(place):
    import asyncpg

    async with asyncpg.create_pool(**place, min_size=1) as pool, pool.acquire() as connection:
        yield OfAsyncpg(connection, connection)


@contextlib.asynccontextmanager
async def of_mysql(name, place):
    driver = pytest.importorskip(name)
    async with driver.connect(**place) as connection:
        yield Transactions(connection, connection)


@contextlib.asynccontextmanager
async def aiosqlite_s(path):
    import aiosqlite

    async with aiosqlite.connect(path) as connection:
        yield Transactions(connection, connection)


@contextlib.asynccontextmanager
async def sqlalchemys(url, *, session):
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    engine = create_async_engine(url)
    async with AsyncSession(engine) if session else engine.connect() as given:

        async def run(words):
            result = await given.execute(text(words))
            return result.fetchall() if result.returns_rows else None

        yield Transactions(given, given, run=run)
    await engine.dispose()


@pytest.fixture(params=[*SQLITE, *(pytest.param(name, marks=pytest.mark.servers) for name in (*POSTGRES, *MYSQL))])
def driver(request):
    return request.param


@pytest.fixture
def url(request, driver, tmp_path):
    if driver in SQLITE:
        return f"sqlite:///{tmp_path}/jobs.db"
    if driver in MYSQL:
        return emptied(request.getfixturevalue("mariadb_server"))
    return request.getfixturevalue("postgres_server").url()


@pytest.fixture
def connect(request, driver, url, tmp_path):
    """Returns what connects to the store's database; with `session` an AsyncSession, where that is SQLAlchemy's."""
    name = driver.partition("+")[2] or driver
    if driver in SQLITE:
        place = f"{tmp_path}/jobs.db"
        full = f"sqlite+aiosqlite:///{place}"
    elif driver in MYSQL:
        server = request.getfixturevalue("mariadb_server")
        database = urlsplit(url).path[1:]
        place = {"unix_socket": str(server.socket), "user": "root", "db": database}
        full = f"mysql+{name}://root@localhost/{database}?unix_socket={server.socket}"
    else:
        server = request.getfixturevalue("postgres_server")
        database = "database" if "asyncpg" in name else "dbname"
        place = {"host": str(server.folder), "port": server.port, "user": "pywheel", database: "pywheel"}
        full = f"postgresql+{name}://pywheel@/pywheel?host={server.folder}&port={server.port}"

    def connect(*, session=False):
        if "+" in driver:
            return sqlalchemys(full, session=session)
        if driver in MYSQL:
            return of_mysql(driver, place)
        ways = {
            "psycopg": psycopg_s,
            "asyncpg": asyncpg_s,
            "pool of asyncpg": of_a_pool_of_asyncpg,
            "aiosqlite": aiosqlite_s,
        }
        return ways[driver](place)

    return connect


@pytest.fixture
def run(url, connect):
    """Runs a coroutine function with a queue and a connection on one loop."""

    def run(test, *, session=False):
        async def main():
            async with AsyncJobQueue(url) as queue, connect(session=session) as mine:
                await test(queue, mine)

        asyncio.run(asyncio.wait_for(main(), 120))

    return run


@pytest.mark.parametrize("session", [False, True], ids=["connection", "session"])
def test_a_job_exists_from_the_commit_on_and_not_after_a_rollback(run, session, driver):
    if session and "+" not in driver:
        pytest.skip("the driver has no sessions")

    async def test(queue, mine):
        headers = {"h": "1"}
        await mine.begin()
        id = await queue.put("order", {"n": 1}, key="k", headers=headers, priority=3, connection=mine.given)
        many = await queue.put_many([queue.job("order", {"n": n}) for n in range(3)], connection=mine.given)
        assert await queue.jobs.list("order") == []
        await mine.commit()
        job = await queue.get(id)
        assert (job.topic, job.key, job.json(), job.headers, job.priority) == ("order", "k", {"n": 1}, headers, 3)
        assert [(await queue.get(one)).json() for one in many] == [{"n": 0}, {"n": 1}, {"n": 2}]
        await mine.begin()
        gone = await queue.put("order", key="gone", connection=mine.given)
        await mine.rollback()
        assert await queue.jobs.list("order", key="gone") == [], gone
        assert (await queue.topics.counts())["order"].delayed == 4

    run(test, session=session)


def test_it_goes_together_with_what_else_the_transaction_does(run):
    async def test(queue, mine):
        await mine.begin()
        await mine.run("CREATE TABLE IF NOT EXISTS async_orders (number bigint, job bigint)")
        await mine.run("DELETE FROM async_orders")
        await mine.commit()
        await mine.begin()
        await mine.run("INSERT INTO async_orders VALUES (1, 0)")
        id = await queue.put("order", connection=mine.given)
        await mine.run(f"UPDATE async_orders SET job = {id}")
        await mine.commit()
        await mine.begin()
        assert [tuple(row) for row in await mine.run("SELECT job FROM async_orders")] == [(id,)]
        await mine.rollback()
        assert (await queue.get(id)).topic == "order"

    run(test)


def test_a_key_that_is_taken_is_refused_and_the_transaction_goes_on(run):
    async def test(queue, mine):
        first = await queue.put("order", key="k")
        await mine.begin()
        with pytest.raises(JobExists):
            await queue.put_many([queue.job("order"), queue.job("order", key="k")], connection=mine.given)
        assert await queue.put("order", b"new", key="k", replace=True, connection=mine.given) == first
        assert (await queue.get(first)).body != b"new"
        await mine.commit()
        assert [(job.id, job.body) for job in await queue.jobs.list("order")] == [(first, b"new")]

    run(test)


def test_a_cancel_a_reschedule_and_an_edit_happen_with_the_commit(run):
    async def test(queue, mine):
        by_id = await queue.put("order", delay="1h")
        by_key = await queue.put("order", delay="1h", key="k")
        for ends in (mine.rollback, mine.commit):
            await mine.begin()
            assert await queue.cancel(by_id, connection=mine.given)
            assert not await queue.cancel(by_id, connection=mine.given)
            assert await queue.reschedule(("order", "k"), "2h", connection=mine.given)
            assert await queue.jobs.edit(("order", "k"), body="new", priority=1, connection=mine.given)
            assert (await queue.get(by_id)).state is State.DELAYED
            assert (await queue.get(by_key)).json() is None
            before = (await queue.get(by_key)).due
            await ends()
        assert (await queue.get(by_id)).state is State.CANCELLED
        assert (await queue.get(by_key)).due > before + 3_000_000
        assert ((await queue.get(by_key)).json(), (await queue.get(by_key)).priority) == ("new", 1)
        await mine.begin()
        assert not await queue.cancel(987654321, connection=mine.given)
        await mine.commit()

    run(test)


def test_a_worker_hears_of_a_put_and_of_a_reschedule_at_the_commit(run):
    async def test(queue, mine):
        handled = []
        queue.handler("order")(lambda job: handled.append(job.id))
        later = await queue.put("order", delay="1h")
        replaced = await queue.put("order", delay="1h", key="k")
        worker = Worker(queue)
        worker.start()
        try:
            await mine.begin()
            now = await queue.put("order", connection=mine.given)
            await queue.reschedule(later, 0, connection=mine.given)
            await queue.put("order", key="k", replace=True, connection=mine.given)
            await asyncio.sleep(0.2)
            assert handled == []
            await mine.commit()
            await asyncio.to_thread(until, lambda: sorted(handled) == sorted([now, later, replaced]))
        finally:
            worker.stop()
            await asyncio.to_thread(worker.join, 20)

    run(test)


def test_a_connection_without_a_transaction_is_refused(run, driver):
    if "+" in driver or driver not in ("asyncpg", "pool of asyncpg", "aiomysql", "asyncmy"):
        pytest.skip("it begins transactions by itself")

    async def test(queue, mine):
        if driver in MYSQL:
            await mine.given.autocommit(True)
        with pytest.raises(BadJob, match="begin one"):
            await queue.put("order", connection=mine.given)
        assert await queue.jobs.list("order") == []

    run(test)


def test_a_connection_that_is_closed_is_refused(run, driver):
    async def test(queue, mine):
        await mine.begin()
        await mine.rollback()
        if "pool" in driver:
            await mine.given._con.close()
        elif "asyncmy" in driver and "+" not in driver:
            await mine.given.ensure_closed()
        else:
            await (mine.given.ensure_closed() if driver == "aiomysql" else mine.given.close())
        with pytest.raises(BadJob, match=r"connection= (is closed|cannot be used)"):
            await queue.put("order", connection=mine.given)
        assert await queue.jobs.list("order") == []

    run(test)


def test_a_queue_that_blocks_refuses_it_and_says_what_to_use(run):
    async def test(queue, mine):
        await mine.begin()
        with pytest.raises(BadJob, match=r"await the call of an AsyncJobQueue, or of queue\.aio"):
            queue.sync.put("order", connection=mine.given)
        await mine.rollback()

    run(test)


def test_a_task_that_is_cancelled_ends_its_statement_and_the_connection_is_free(run, connect, driver):
    """It waits for a lock: what is cancelled is the driver's call, and what was done is undone before it ends."""
    if driver in SQLITE:
        pytest.skip("it waits for the file in a thread of its own, which nothing ends")

    async def test(queue, mine):
        await queue.put("order", key="k")
        async with connect() as other:
            await other.begin()
            await queue.put("order", b"theirs", key="k", replace=True, connection=other.given)
            await mine.begin()
            await queue.put("order", key="before", connection=mine.given)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await queue.put("order", b"mine", key="k", replace=True, connection=mine.given)
            with contextlib.suppress(Exception):  # some drivers close a connection whose call was cancelled
                await mine.rollback()
            await other.commit()
        assert [(job.key, job.body) for job in await queue.jobs.list("order")] == [("k", b"theirs")]

    run(test)


def test_a_job_that_was_put_since_a_snapshot_is_cancelled_or_said_to_be_unseen(run, driver):
    """It would be said not to be there, and then it would run."""
    if driver in SQLITE:
        pytest.skip("whoever writes sees all there is")

    async def test(queue, mine):
        await queue.put("order", delay="1h", key="old")
        await mine.begin()
        if driver in MYSQL:
            await mine.run("SELECT count(*) FROM pywheel_job")  # REPEATABLE READ, as it comes
        else:
            await mine.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await mine.run("SELECT 1 FROM pg_class")
        new = await queue.put("order", delay="1h", key="new")
        if driver in MYSQL:
            assert await queue.cancel(("order", "new"), connection=mine.given)
        else:
            for ref in (new, ("order", "new")):
                with pytest.raises(StoreBusy, match="begin it anew"):
                    await queue.cancel(ref, connection=mine.given)
        assert await queue.cancel(("order", "old"), connection=mine.given)
        await mine.commit()
        assert (await queue.get(new)).state is (State.CANCELLED if driver in MYSQL else State.DELAYED)

    run(test)


def test_no_worker_takes_a_job_whose_cancel_is_not_committed(run, driver):
    if driver in SQLITE:
        pytest.skip("nobody else can write to the file until then")

    async def test(queue, mine):
        id = await queue.put("order")
        await mine.begin()
        assert await queue.cancel(id, connection=mine.given)
        assert queue.store.apply([Reserve("order", 1, ClaimPolicy(60_000, 3), "w")]) == [[]]
        await mine.commit()
        assert queue.store.apply([Reserve("order", 1, ClaimPolicy(60_000, 3), "w")]) == [[]]
        assert (await queue.get(id)).state is State.CANCELLED

    run(test)


def test_what_a_file_is_locked_for_is_said_on_aiosqlite(run, driver, tmp_path):
    if driver != "aiosqlite":
        pytest.skip("SQLite's")

    async def test(queue, mine):
        await queue.put("order")
        await mine.run("PRAGMA busy_timeout = 50")
        with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy):
                await queue.put("order", connection=mine.given)
            other.rollback()

    run(test)
