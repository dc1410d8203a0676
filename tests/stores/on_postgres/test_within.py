"""Puts inside a transaction of the caller's own: settings of a connection that only PostgreSQL has."""

from contextlib import closing

import psycopg
import psycopg2
import pytest

from pywheel import BadJob, JobQueue


@pytest.fixture
def queue(postgres_server):
    with JobQueue(postgres_server.url()) as queue:
        yield queue


@pytest.mark.parametrize("driver", [psycopg, psycopg2])
def test_a_key_that_the_connections_encoding_lacks_is_bad(queue, postgres_server, driver):
    place = {"host": str(postgres_server.folder), "port": postgres_server.port, "user": "pywheel"}
    with closing(driver.connect(dbname="pywheel", client_encoding="latin1", **place)) as theirs:
        id = queue.put("order", key="ä", connection=theirs)
        with pytest.raises(BadJob, match="latin-1"):
            queue.put("order", key="€", connection=theirs)
        theirs.commit()
    assert queue.get(("order", "ä")).id == id


def test_a_connection_whose_texts_come_as_bytes_is_refused_with_the_reason(queue, postgres_server):
    with postgres_server.connect(autocommit=False, client_encoding="sql_ascii") as theirs:
        with pytest.raises(BadJob, match="client_encoding is SQL_ASCII: set it to utf8"):
            queue.put("order", connection=theirs)
        theirs.execute("SET client_encoding TO utf8")
        queue.put("order", connection=theirs)


def test_a_connection_in_pipeline_mode_is_refused(queue, postgres_server):
    with postgres_server.connect(autocommit=False) as theirs:
        with theirs.pipeline(), pytest.raises(BadJob, match="pipeline"):
            queue.put("order", connection=theirs)
        queue.put("order", connection=theirs)
