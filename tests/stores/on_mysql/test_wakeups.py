"""Workers of other processes hear of changes: a statement that waits on the server is ended, or they look for hints."""

import pytest

from pywheel import StoreClosed
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import ListWorkers
from pywheel.stores import open
from tests.jobs.waiting import until
from tests.stores.calls import listening, put


@pytest.fixture(params=["on", "off"])
def two(request, mariadb_server):
    url = mariadb_server.url(notify=request.param)
    with open(url) as one, open(url) as other:
        yield one, other


def heard(notifier, count=1):
    """Return so many jobs, as they are told."""
    found = []

    def some():
        notifier.wait(1)
        found.extend(due.id for due in notifier.hints().due)
        return len(found) >= count

    until(some)
    return found


def test_who_is_gone_without_a_word_is_known_to_be(two):
    """The lock that its session held has gone with it."""
    one, other = two
    mine, theirs = listening(one), listening(other)
    theirs._session.end()
    until(lambda: {member.worker: member.silent for member in one.ask(ListWorkers())}[theirs.worker] == 60)
    mine._behind = None
    mine.beat(0)
    assert {member.worker: member.silent for member in one.ask(ListWorkers())}[mine.worker] < 10


def test_a_session_that_an_administrator_ends_is_replaced(two):
    one, other = two
    ears = listening(one)
    ears.wait(0.05)
    ended = ears._session
    one.raw([f"KILL {ended.thread_id()}"])

    def back():
        ears.wait(0.05)
        ears._beat_at -= 2
        ears.beat(0)
        return ears._session not in (ended, None)

    until(back)
    ears.publish(2**60)
    ears.hints()
    assert put(other, NewJob("t", b"", 0)) == heard(ears)


def test_a_hint_that_nobody_rang_for_is_found_by_the_next_beat(mariadb_server):
    """Whoever wrote it died before it could end the wait."""
    url = mariadb_server.url()
    with open(url) as one, open(url) as other:
        ears = listening(one)
        [id] = put(other, NewJob("t", b"", 2**44))
        heard(ears)
        ears.beat(0)
        hashed = ears._me["me"].hex()
        other.raw([f"INSERT INTO pywheel_hint (worker, ring, job) VALUES (x'{hashed}', 7, {id})"])
        ears._beat_at -= 2
        ears.beat(0)
        assert heard(ears) == [id]


def test_a_beat_is_one_statement_on_mariadb_and_three_on_mysql(mariadb_server):
    with open(mariadb_server.url()) as store:
        ears = listening(store)
        ears.beat(0)
        before = int(store.raw(["SHOW SESSION STATUS LIKE 'Questions'"])[0][0][1])
        for _ in range(10):
            ears._beat_at -= 2
            ears.beat(0)
        after = int(store.raw(["SHOW SESSION STATUS LIKE 'Questions'"])[0][0][1])
        assert after - before == 1 + 10 * (3 if mariadb_server.is_mysql else 1)


def test_while_jobs_are_claimed_no_wait_on_the_server_is_long(mariadb_server, monkeypatch):
    """The server sees that a client was killed when its statement ends. Then its lock is free, and others know."""

    def waits(store):
        [rows] = store.raw(["SELECT info FROM information_schema.processlist WHERE info LIKE 'SELECT sleep(%'"])
        return [float(info[len("SELECT sleep(") : info.index(")")]) for [info] in rows]

    monkeypatch.setattr("pywheel.stores.mysql.notifier._SLEEP", 3600.0)  # it does not end by itself meanwhile
    monkeypatch.setattr("pywheel.stores.presence._BUSY", 3600.0)  # and the claim is not long ago by then
    with open(mariadb_server.url()) as store:
        ears = listening(store)
        until(lambda: not ears.wait(0.01) and waits(store) == [3600])
        put(store, NewJob("t", b"", 0))
        assert store.apply([ops.Reserve("t", 1, ops.ClaimPolicy(60_000, 3), "w")])[0]
        until(lambda: not ears.wait(0.01) and waits(store) == [0.5])


def test_a_wait_that_is_closed_in_the_middle_of_an_answer_ends(mariadb_server, monkeypatch):
    url = mariadb_server.url()
    with open(url) as one, open(url) as other:
        ears = listening(one)
        receive = ears._session.receive

        def closed():
            ears.end()
            return receive()

        monkeypatch.setattr(ears._session, "receive", closed)

        def ended():
            if not ears._closed:
                put(other, NewJob("t", b"", 0))
                ears.wait(0.1)
            return ears._closed

        until(ended)
        with pytest.raises(StoreClosed):
            ears.hints()
