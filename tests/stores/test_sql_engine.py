"""The SQL engine's statements, on SQLite: their number, the ids that they give, and their bounds."""

import random
import re
import sqlite3
from itertools import pairwise

import pytest

from pywheel import JobQueue
from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import ClaimPolicy
from pywheel.jobs.limits import Limits
from pywheel.jobs.queries import CountJobs, Filter, GetForecast, GetHistories, GetJob, GetPage, ListEnded, ListJobs
from pywheel.stores import open
from pywheel.stores.sql import lists
from pywheel.stores.sql.statement import drive
from pywheel.stores.sqlite import dialect
from pywheel.stores.sqlite.dialect import Carrier
from tests.stores.calls import listening, put_many
from tests.stores.files import NOW, TERMS, connection_of, put, traced

# ---- puts -----------------------------------------------------------------------------------------------------------


def test_a_plain_put_is_one_statement_also_if_somebody_is_to_hear_of_it(store):
    put(store)
    with traced(store) as texts:
        put(store)
    assert len(texts) == 1
    assert texts[0].startswith("INSERT INTO job")
    notifier = listening(store)
    put(store)
    with traced(store) as texts:
        id = put(store)
    assert len(texts) == 1
    notifier.wait(0)
    assert id in {due.id for due in notifier.hints().due}
    notifier.close()


def test_puts_alone_and_in_transactions_and_of_two_stores_give_each_id_once(store, path, clock):
    draw = random.Random(1)
    with open(f"sqlite:///{path}", clock=clock) as other:
        given = []
        for _ in range(200):
            one = draw.choice([store, other])
            given += put_many(one, draw.choice([1, 1, 1, 2, 30]))
            if draw.random() < 0.2:
                assert one.apply([ops.Delete(given[-1])]) == [ops.Change.MADE]
        assert sorted(set(given)) == given


def test_ids_that_another_program_gave_in_its_own_transaction_are_not_given_again(path):
    with JobQueue(f"sqlite:///{path}") as queue:
        first = [queue.put("t", delay=60) for _ in range(3)]
        for end in ("COMMIT", "ROLLBACK"):
            theirs = sqlite3.connect(path, isolation_level=None)
            theirs.execute("BEGIN")
            between = queue.put("t", delay=60, connection=theirs)
            theirs.execute(end)
            theirs.close()
            after = queue.put("t", delay=60)
            assert after == between + (end == "COMMIT")
            assert after > first[-1]
        assert queue.topics.counts()["t"].delayed == 6


def test_a_reserve_under_a_limit_that_is_reached_looks_at_no_more_jobs_than_it_wants(store):
    put_many(store, 100)
    policy = ClaimPolicy(60_000, 3, (0,), limits=Limits(1))
    reserve = ops.Reserve("t", 2, policy, "w")
    assert [len(jobs) for jobs in store.apply([reserve])] == [1]
    with traced(store) as texts:
        assert store.apply([reserve]) == [[]]
    [look] = [text for text in texts if "ORDER BY j.next" in text]
    assert re.findall("LIMIT ([0-9]+)", look) == ["2"]


# ---- changes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [1, 3, 40])
def test_claims_of_any_number_of_kinds_are_ended_by_a_few_statements(store, kinds):
    put_many(store, 200)
    [jobs] = store.apply([ops.Reserve("t", 200, TERMS, "w")])
    nacks = [ops.Nack(job.id, job.claims, 10 + job.id % kinds, f"e{job.id % kinds}") for job in jobs]
    with traced(store) as texts:
        assert store.apply(nacks) == [State.DELAYED] * 200
    assert len(texts) < 50
    for job in jobs:
        found = store.ask(GetJob(job.id))
        assert (found.due, found.last_error) == (NOW + 10 + job.id % kinds, f"e{job.id % kinds}")
        [attempt] = store.ask(GetHistories([job.id]))[0]
        assert (attempt.claim, attempt.error) == (1, found.last_error)


def test_a_claim_is_as_many_statements_for_many_jobs_as_for_one(store):
    first, *others = put_many(store, 301)
    policy = ClaimPolicy(1_000, 3, (5_000, 9_000), jitter=0.5)
    counts = []
    for some in ((first,), tuple(others)):
        with traced(store) as texts:
            [claimed] = store.apply([ops.Claim("t", some, policy, "w", len(some))])
        assert len(claimed.jobs) == len(some)
        counts.append(len(texts))
    assert counts[1] <= counts[0]


def test_the_leases_that_ended_first_are_ended_first(store, clock):
    ids = [put(store, topic=topic) for topic in ("a", "b")]
    for topic, ttr in (("b", 1_000), ("a", 2_000)):
        store.apply([ops.Reserve(topic, 1, ClaimPolicy(ttr, 3), "w")])
    clock.advance(2)
    assert store.apply([ops.Expire(1)])[0].ended == 1
    running = connection_of(store).execute("SELECT id FROM job WHERE state = 1").fetchall()
    assert running == [(ids[0],)]


def notes(store, names):
    store.apply([ops.SetNote(name, b"", 10) for name in names])


def nonces(store, names):
    store.apply([ops.Put((NewJob("t", b"b", NOW),), name) for name in names])


def deaths(store, names):
    put_many(store, len(names))
    store.apply([ops.Reserve("t", len(names), ClaimPolicy(1_000, 1), "w")])
    store.clock.advance(1)
    [ended] = store.apply([ops.Expire(len(names))])
    assert len(ended.dead) == len(names)


@pytest.mark.parametrize("together", [1, 12])
@pytest.mark.parametrize(("write", "days"), [(notes, 1), (nonces, 32), (deaths, 1)])
def test_what_is_kept_for_a_time_is_forgotten_as_fast_as_it_is_written(store, clock, write, days, together):
    for number in range(10):
        write(store, [f"{number} {other}" for other in range(together)])
        clock.advance(days * 86_400)
    [[left]] = connection_of(store).execute("SELECT (SELECT count(*) FROM note) + (SELECT count(*) FROM nonce)")
    assert 0 < left <= 2 * together


# ---- lists ----------------------------------------------------------------------------------------------------------


def test_a_list_goes_on_behind_what_one_scan_looks_at(store, monkeypatch):
    monkeypatch.setattr(lists, "_WALK", 100)
    monkeypatch.setattr(lists, "_FEW", 0)
    ids = []
    for _ in range(2):
        put_many(store, 500, "other")
        ids += put_many(store, 10)
    assert [job.id for job in store.ask(ListJobs(Filter("t"), 0, 100))] == ids
    seen, after = [], ""
    while after is not None:
        page = store.ask(GetPage(Filter("t"), after, 100))
        seen += [job.id for job in page.jobs]
        after = page.next
    assert seen == ids


def answers_to(store, query):
    """Return the columns that each statement for a query reads, and its rows."""
    carrier, found = Carrier(connection_of(store), NOW), []

    def send(batch):
        answers = carrier.send(batch)
        found.extend(zip([getattr(statement, "columns", "") for statement in batch], answers, strict=True))
        return answers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_read_steps", lambda begin: drive(send, begin()))
        store.ask(query)
    return found


def rows_read(store, query):
    """Return the number of rows that all statements for a query read."""
    return sum(len(rows) for _, rows in answers_to(store, query))


@pytest.mark.parametrize("filter", [Filter(error="nothing"), Filter(due_from=NOW + 1), Filter("t", error="nothing")])
def test_a_list_in_which_no_job_matches_reads_each_job_a_few_times(store, monkeypatch, filter):
    monkeypatch.setattr(lists, "_FEW", 0)
    count = 12_000
    put_many(store, count, due=NOW)
    assert rows_read(store, ListJobs(filter, 0, 100)) < 6 * count
    pages, rows, after = 0, 0, ""
    while after is not None:
        query = GetPage(filter, after, 100)
        rows += rows_read(store, query)
        after, pages = store.ask(query).next, pages + 1
    assert rows < 6 * count
    assert pages <= count / 500


def test_a_list_of_few_jobs_among_many_scans_more_at_once_while_it_finds_none(store, monkeypatch):
    monkeypatch.setattr(lists, "_FEW", 0)
    [first] = put_many(store, 1)
    put_many(store, 9_000, "other")
    ids = [first, *put_many(store, 2_500)]
    assert [job.id for job in store.ask(ListJobs(Filter("t"), 0, 10_000))] == ids
    assert rows_read(store, ListJobs(Filter("t"), 0, 10_000)) < 4 * 11_501


def test_a_list_reads_the_bodies_of_those_jobs_alone_that_it_returns(store):
    put_many(store, 50, due=NOW)
    last = put_many(store, 5, due=NOW + 1)
    found = answers_to(store, ListJobs(Filter(due_from=NOW + 1), 0, 3))
    assert [row[0] for columns, rows in found if "body" in columns for row in rows] == last[:3]


# ---- forecasts ------------------------------------------------------------------------------------------------------


def looked_at(store, edges, topic, most):
    """A forecast by looking at every job."""
    dues = [job.due for job in store.ask(ListJobs(Filter(topic, State.DELAYED), 0, 10_000))]
    return [min(sum(start <= due < end for due in dues), most) for start, end in pairwise(edges)]


@pytest.mark.parametrize("topics", [1, 8, 30, 400])
def test_a_forecast_is_the_same_as_by_looking_at_every_job(store, topics):
    draw = random.Random(topics)
    jobs = [
        NewJob(f"t{int(topics * draw.random() ** 3)}", b"", NOW + draw.randrange(100), priority=draw.choice([0, 0, 5]))
        for _ in range(1_500)
    ]
    store.apply([ops.Put(tuple(jobs))])
    store.apply([ops.Reserve("t0", 20, ClaimPolicy(50, 3, slack=0), "w")])  # leases that end between the edges
    edges = [NOW - 5, NOW, NOW + 1, NOW + 30, NOW + 31, NOW + 99, NOW + 500]
    for most in (1, 7, 10_000):
        assert store.ask(GetForecast(edges, None, most)) == looked_at(store, edges, None, most)
        assert store.ask(GetForecast(edges, "t0", most)) == looked_at(store, edges, "t0", most)


def test_a_forecast_of_many_topics_takes_few_statements(store):
    store.apply([ops.Put(tuple(NewJob(f"t{number % 500}", b"", NOW + number) for number in range(2_000)))])
    texts = []
    store._database.read(lambda connection: connection.set_trace_callback(texts.append))
    edges = list(range(NOW, NOW + 2_001, 20))
    assert store.ask(GetForecast(edges)) == [20] * 100
    assert len(texts) < 120


# ---- what is long ---------------------------------------------------------------------------------------------------


def test_rows_that_are_parsed_one_by_one_are_the_same(store, monkeypatch):
    jobs = [NewJob(f't,[{number}]\u2028\\"', bytes([number]), NOW + number, key=f"]{number}") for number in range(50)]
    store.apply([ops.Put(tuple(jobs))])
    asked = [
        CountJobs(),
        ListJobs(Filter(), 0, 100),
        ListJobs(Filter("nothing"), 0, 100),
        GetJob(('t,[7]\u2028\\"', "]7")),
    ]
    before = [store.ask(query) for query in asked]
    monkeypatch.setattr(dialect, "_LONG", 0)
    assert [store.ask(query) for query in asked] == before
    assert len(before[0]) == len(before[1]) == 50


def test_the_last_ends_of_very_many_topics_take_few_statements(store):
    store.apply([ops.Put(tuple(NewJob(f"t{number}", b"", NOW) for number in range(500)))])
    for topic in ("t7", "t8"):
        [[job]] = store.apply([ops.Reserve(topic, 1, TERMS, "w")])
        store.apply([ops.Ack(job.id, job.claims)])
    texts = []
    store._database.read(lambda connection: connection.set_trace_callback(texts.append))
    assert {one.topic for one in store.ask(ListEnded(None, 0, 10))} == {"t7", "t8"}
    assert len(texts) < 10
    assert max(map(len, texts)) < 2_000  # no list of all topics
