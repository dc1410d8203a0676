"""Changes inside a transaction of the caller's own, by drivers that block or are awaited, and SQLAlchemy on them."""

import asyncio
import contextlib
import sqlite3
from importlib import import_module
from inspect import isawaitable
from urllib.parse import urlsplit

import pytest

from pywheel import AsyncJobQueue, BadJob, JobExists, StoreBusy
from pywheel.jobs.commands import ClaimPolicy, Reserve
from pywheel.jobs.job import State
from tests.jobs.waiting import until, working
from tests.stores.emptied import emptied

pytestmark = pytest.mark.anyio

BLOCKING = ("sqlite3", "psycopg", "psycopg2", "pymysql")
AWAITED = ("aiosqlite", "psycopg.AsyncConnection", "asyncpg", "pool of asyncpg", "aiomysql", "asyncmy")
SQLALCHEMYS = ("sqlite+pysqlite", "sqlite+aiosqlite", "postgresql+psycopg", "postgresql+psycopg_async")
SQLALCHEMYS += ("postgresql+asyncpg", "mysql+pymysql", "mysql+aiomysql", "mysql+asyncmy")
DRIVERS = (*BLOCKING, *AWAITED, *SQLALCHEMYS)
SQLITE = [name for name in DRIVERS if "sqlite" in name]
MYSQL = [name for name in DRIVERS if "my" in name and name not in SQLITE]
ALONE = [name for name in DRIVERS if name not in SQLALCHEMYS]


def some(names):
    return [name if name in SQLITE else pytest.param(name, marks=pytest.mark.servers) for name in names]


def for_drivers(*names):
    return pytest.mark.parametrize("driver", some(names), indirect=True)


def is_awaited(driver):
    return driver in AWAITED or any(name in driver for name in ("+aio", "+async", "_async"))


async def awaited(found):
    return await found if isawaitable(found) else found


class Transactions:
    """A caller's connection: what it runs, begins and ends, whatever its driver calls that."""

    def __init__(self, given):
        self.given = given
        """What a program gives as `connection=`."""

    async def run(self, words):
        cursor = await awaited(self.given.cursor())
        await awaited(cursor.execute(words))
        return await awaited(cursor.fetchall()) if cursor.description else None

    async def begin(self):
        """Most do it by themselves."""

    async def commit(self):
        await awaited(self.given.commit())

    async def rollback(self):
        await awaited(self.given.rollback())


class OfAsyncpg(Transactions):
    """asyncpg's transactions are objects."""

    async def begin(self):
        self._transaction = self.given.transaction()
        await self._transaction.start()

    async def run(self, words):
        return await self.given.fetch(words)

    async def commit(self):
        await self._transaction.commit()

    async def rollback(self):
        await self._transaction.rollback()


class OfSqlalchemy(Transactions):
    async def run(self, words):
        from sqlalchemy import text

        result = await awaited(self.given.execute(text(words)))
        return result.fetchall() if result.returns_rows else None


@contextlib.asynccontextmanager
async def connected(driver, place, full, *, session):
    """Yield what a driver's connection does; with `session` that of a session, where the driver is SQLAlchemy."""
    async with contextlib.AsyncExitStack() as stack:
        if driver in SQLALCHEMYS:
            yield OfSqlalchemy(await of_sqlalchemy(stack, driver, full, session))
        elif driver in BLOCKING:
            module = pytest.importorskip(driver)
            connection = module.connect(**place)
            stack.callback(ended, connection)
            yield Transactions(connection)
        elif driver == "asyncpg":
            connection = await import_module(driver).connect(**place)
            stack.push_async_callback(connection.close)
            yield OfAsyncpg(connection)
        elif driver == "pool of asyncpg":
            pool = await stack.enter_async_context(import_module("asyncpg").create_pool(**place, min_size=1))
            yield OfAsyncpg(await stack.enter_async_context(pool.acquire()))
        else:
            name, _, kind = driver.partition(".")
            module = pytest.importorskip(name)
            made = (getattr(module, kind) if kind else module).connect(**place)
            yield Transactions(await stack.enter_async_context(await made if kind else made))


def ended(connection):
    with contextlib.suppress(Exception):  # PyMySQL's is closed once
        connection.close()


async def of_sqlalchemy(stack, driver, full, session):
    import sqlalchemy
    from sqlalchemy import orm
    from sqlalchemy.ext import asyncio as awaiting

    if is_awaited(driver):
        engine = awaiting.create_async_engine(full)
        stack.push_async_callback(engine.dispose)
        return await stack.enter_async_context(awaiting.AsyncSession(engine) if session else engine.connect())
    engine = sqlalchemy.create_engine(full)
    stack.callback(engine.dispose)
    return stack.enter_context(orm.Session(engine) if session else engine.connect())


@pytest.fixture(params=some(DRIVERS))
def driver(request):
    return request.param


@pytest.fixture
def url(request, driver, tmp_path):
    if driver in SQLITE:
        return f"sqlite:///{tmp_path}/jobs.db"
    return emptied(request.getfixturevalue("mariadb_server" if driver in MYSQL else "postgres_server"))


@pytest.fixture
def connect(request, driver, url, tmp_path):
    """Returns what connects to the store's database."""
    if driver in SQLITE:
        place = {"database": f"{tmp_path}/jobs.db"}
        full = f"{driver}:///{tmp_path}/jobs.db"
    elif driver in MYSQL:
        server, database = request.getfixturevalue("mariadb_server"), urlsplit(url).path[1:]
        place = {"unix_socket": str(server.socket), "user": "root"}
        place["database" if driver == "pymysql" else "db"] = database
        full = f"{driver}://root@localhost/{database}?unix_socket={server.socket}"
    else:
        server = request.getfixturevalue("postgres_server")
        database = "database" if "asyncpg" in driver else "dbname"
        place = {"host": str(server.folder), "port": server.port, "user": "pywheel", database: "pywheel"}
        full = f"{driver}://pywheel@/pywheel?host={server.folder}&port={server.port}"
    return lambda *, session=False: connected(driver, place, full, session=session)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def queue(url):
    async with AsyncJobQueue(url) as queue:
        yield queue


@pytest.fixture
def session():
    """Whether a connection of SQLAlchemy is that of a session."""
    return False


@pytest.fixture
async def mine(queue, connect, session):
    """A connection on the loop of the queue."""
    async with connect(session=session) as mine:
        yield mine


@pytest.mark.parametrize("session", [False, True], ids=["connection", "session"])
async def test_a_job_exists_from_the_commit_on_and_not_after_a_rollback(queue, mine, session, driver):
    if session and driver not in SQLALCHEMYS:
        pytest.skip("the driver has no sessions")
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


async def test_a_key_that_is_taken_is_refused_and_the_transaction_goes_on(queue, mine):
    first = await queue.put("order", key="k")
    await mine.begin()
    with pytest.raises(JobExists):
        await queue.put_many([queue.job("order"), queue.job("order", key="k")], connection=mine.given)
    assert await queue.put("order", b"new", key="k", replace=True, connection=mine.given) == first
    assert (await queue.get(first)).body != b"new"
    await mine.commit()
    assert [(job.id, job.body) for job in await queue.jobs.list("order")] == [(first, b"new")]


@for_drivers(*ALONE)
async def test_a_cancel_a_reschedule_and_an_edit_happen_with_the_commit(queue, mine):
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


@for_drivers("sqlite3", "aiosqlite", "psycopg", "asyncpg", "pymysql", "aiomysql")
async def test_a_worker_hears_of_a_put_and_of_a_reschedule_at_the_commit(queue, mine):
    handled = []
    queue.handler("order")(lambda job: handled.append(job.id))
    later = await queue.put("order", delay="1h")
    replaced = await queue.put("order", delay="1h", key="k")
    with working(queue):
        await mine.begin()
        now = await queue.put("order", connection=mine.given)
        await queue.reschedule(later, 0, connection=mine.given)
        await queue.put("order", key="k", replace=True, connection=mine.given)
        await asyncio.sleep(0.2)
        assert handled == []
        await mine.commit()
        await asyncio.to_thread(until, lambda: sorted(handled) == sorted([now, later, replaced]))


@for_drivers(*(name for name in ALONE if name != "aiosqlite"))  # which begins transactions by itself
async def test_a_connection_without_a_transaction_is_refused(queue, mine, driver):
    if "sqlite" in driver:
        mine.given.isolation_level = None
    elif driver == "psycopg2":
        mine.given.autocommit = True
    elif "asyncpg" not in driver:
        await awaited(mine.given.autocommit(True) if driver in MYSQL else mine.given.set_autocommit(True))
    with pytest.raises(BadJob, match="begin one"):
        await queue.put("order", connection=mine.given)
    assert await queue.jobs.list("order") == []
    await (mine.begin() if "asyncpg" in driver else mine.run("BEGIN"))
    id = await queue.put("order", connection=mine.given)
    await (mine.commit() if "asyncpg" in driver else mine.run("COMMIT"))
    assert (await queue.get(id)).topic == "order"


@for_drivers("sqlite3", "aiosqlite", "psycopg", "pymysql")
async def test_rows_and_texts_may_be_whatever_the_caller_likes(queue, mine, driver):
    if driver == "pymysql":
        mine.given.cursorclass = import_module("pymysql.cursors").DictCursor
        await mine.run("SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
    else:
        mine.given.row_factory = import_module("psycopg.rows").dict_row if driver == "psycopg" else sqlite3.Row
    id = await queue.put("a%b\\\1", key="c%sd'\1", connection=mine.given)
    await mine.commit()
    assert ((await queue.get(id)).topic, (await queue.get(id)).key) == ("a%b\\\1", "c%sd'\1")
    [row] = await mine.run("SELECT 1 AS one")
    assert row["one"] == 1


async def test_a_connection_that_is_closed_is_refused(queue, mine, driver):
    await mine.begin()
    await mine.rollback()
    closing = mine.given._con if "pool" in driver else mine.given
    await awaited(closing.ensure_closed() if driver in ("aiomysql", "asyncmy") else closing.close())
    with pytest.raises(BadJob, match=r"connection= (is closed|cannot be used)"):
        await queue.put("order", connection=mine.given)
    assert await queue.jobs.list("order") == []


@for_drivers(*filter(is_awaited, DRIVERS))
async def test_a_queue_that_blocks_refuses_it_and_says_what_to_use(queue, mine):
    await mine.begin()
    with pytest.raises(BadJob, match=r"await the call of an AsyncJobQueue, or of queue\.aio"):
        queue.sync.put("order", connection=mine.given)
    await mine.rollback()


@for_drivers("aiosqlite", "psycopg", "psycopg.AsyncConnection", "asyncpg", "pymysql", "aiomysql")
async def test_a_connection_of_a_class_of_the_program_is_that_of_the_driver(queue, mine):
    """asyncpg and sqlite3 take such a class as an argument."""
    mine.given.__class__ = type("Mine", (type(mine.given),), {"__slots__": ()})
    await mine.begin()
    id = await queue.put("order", connection=mine.given)
    assert await queue.jobs.list("order") == []
    await mine.commit()
    assert (await queue.get(id)).topic == "order"


@for_drivers(*filter(is_awaited, DRIVERS))
async def test_calls_of_several_tasks_on_one_connection_take_turns(queue, mine):
    """Side by side, a savepoint of one would end that of another: what is refused would undo what is confirmed."""
    await queue.put("order", key="k")
    await mine.begin()
    puts = [queue.put("order", key=key, connection=mine.given) for key in ("k", "a", "k", "b", "k")]
    found = await asyncio.gather(*puts, return_exceptions=True)
    await mine.commit()
    assert [type(one) for one in found] == [JobExists, int, JobExists, int, JobExists]
    assert [(await queue.get(found[place])).key for place in (1, 3)] == ["a", "b"]


@for_drivers(*(name for name in DRIVERS if is_awaited(name) and name not in SQLITE))
async def test_a_task_that_is_cancelled_ends_its_statement_and_the_connection_is_free(queue, mine, connect):
    """It waits for a lock: what is cancelled is the driver's call, and what was done is undone before it ends."""
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


@for_drivers(*(name for name in ALONE if name not in SQLITE))
async def test_a_job_that_was_put_since_a_snapshot_is_cancelled_or_said_to_be_unseen(queue, mine, driver):
    """It would be said not to be there, and then it would run."""
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


@for_drivers("psycopg", "pymysql")
async def test_no_worker_takes_a_job_whose_cancel_is_not_committed(queue, mine):
    id = await queue.put("order")
    await mine.begin()
    assert await queue.cancel(id, connection=mine.given)
    assert queue.store.apply([Reserve("order", 1, ClaimPolicy(60_000, 3), "w")]) == [[]]
    await mine.commit()
    assert queue.store.apply([Reserve("order", 1, ClaimPolicy(60_000, 3), "w")]) == [[]]
    assert (await queue.get(id)).state is State.CANCELLED


@for_drivers(*SQLITE)
async def test_a_file_that_another_writes_to_is_busy(queue, mine, tmp_path):
    await queue.put("order")
    await mine.run("PRAGMA busy_timeout = 50")
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            await queue.put("order", connection=mine.given)
        other.rollback()
