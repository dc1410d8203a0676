"""A store in a SQLite database that another program has begun, beside that program's own tables."""

import sqlite3
from urllib.parse import urlsplit

import pytest

from pywheel import JobQueue, NotAStore
from pywheel.stores import open as open_store
from pywheel.stores.sqlite import adopt
from tests.stores.files import execute


@pytest.fixture
def path(tmp_path):
    """A database with a table of another program's."""
    path = tmp_path / "shop.db"
    execute(path, "CREATE TABLE orders (number INTEGER); INSERT INTO orders VALUES (42)")
    return path


def test_jobs_are_kept_beside_tables_that_are_there_and_in_their_transactions(path):
    url = f"sqlite:///{path}"
    with pytest.raises(NotAStore, match=r"database of another program: .* pywheel\.stores\.sqlite\.adopt\("):
        open_store(url)
    adopt(path)
    with JobQueue(url) as queue:
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("INSERT INTO orders VALUES (43)")
            id = queue.put("close", {"order": 43}, connection=connection)
        assert connection.execute("SELECT number FROM orders").fetchall() == [(42,), (43,)]
        connection.close()
        assert queue.get(id).json() == {"order": 43}
        assert queue.store.verify() == []
        queue.store.vacuum(100)
        queue.store.rewrite()
        assert queue.store.verify() == []
    with JobQueue(url, create=False) as queue:
        assert len(queue.jobs.list()) == 1


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE job (id)", "a table 'job'"),
        ("CREATE TABLE x (id); CREATE INDEX job_next ON x (id)", "'job_next'"),
        ("CREATE TABLE x (id); PRAGMA user_version = 7", "belongs to another program"),
    ],
)
def test_a_database_in_which_the_jobs_tables_cannot_be_is_left_as_it_is(path, statement, said):
    execute(path, statement)
    before = path.read_bytes()
    with pytest.raises(NotAStore, match=said):
        adopt(path)
    assert path.read_bytes() == before


def test_a_store_that_is_adopted_again_stays_one(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url) as queue:
        queue.put("t")
    adopt(urlsplit(url).path)
    with JobQueue(url) as queue:
        assert len(queue.jobs.list()) == 1


def test_a_file_that_is_not_there_or_empty_becomes_a_store_as_ever(tmp_path):
    adopt(tmp_path / "new.db")
    with JobQueue(f"sqlite:///{tmp_path}/new.db") as queue:
        assert queue.put("t")
