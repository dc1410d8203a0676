"""A server that had not heard of all took over: it gives out ids anew that processes still hold."""

from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import pytest

from pywheel.jobs import NewJob
from pywheel.jobs.queries import ListJobs
from pywheel.stores import Filter, open
from tests.stores import calls

DUE = 2 * 10**12


def put(store, count=1, nonce=None, **more):
    return calls.put(store, *(NewJob("t", b"b", DUE, **more) for _ in range(count)), nonce=nonce)


def fall_back(server, url, id):
    """Let the next id that is given out be the one behind this, as on a replica that lags."""
    parts = urlsplit(url)
    if parts.scheme == "postgresql":
        place, sql = {}, "SELECT setval(%s, %s)"
        values = (f"{parse_qs(parts.query)['schema'][0]}.pywheel_id", id)
    else:
        place, sql = {"database": parts.path[1:]}, "UPDATE pywheel_number SET value = %s WHERE name = 'id'"
        values = (id,)
    with closing(server.connect(**place)) as connection, connection.cursor() as cursor:
        cursor.execute(sql, values)


@pytest.mark.parametrize("kind", ["one", "many", "key", "nonce"])
def test_puts_go_on_where_ids_that_a_process_holds_are_given_out_again(sql_server, kind):
    url = sql_server.url()
    with open(url) as before:
        ids = [id for _ in range(300) for id in put(before)]  # so that it holds some hundreds
        fall_back(sql_server, url, ids[-1])
        with open(url) as after:
            for number in range(200):
                ids += put(after, 2)
                more = {"key": {"key": f"k{number}"}, "nonce": {"nonce": f"n{number}"}, "many": {"count": 3}}
                ids += put(before, **more.get(kind, {}))
            assert sorted(ids) == [job.id for job in after.ask(ListJobs(Filter(), 0, 10_000))]
            assert after.verify() == []
