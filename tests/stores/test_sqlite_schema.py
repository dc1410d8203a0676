"""The contents of the file: sums, ids that are not reused, rules in SQL, query plans."""

import random

import pytest

from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as c
from pywheel.jobs.commands import ClaimPolicy
from pywheel.jobs.job import Counts
from pywheel.jobs.queries import CountJobs, GetNextDues
from pywheel.stores.sql import read
from pywheel.stores.sql.statement import drive
from pywheel.stores.sql.transaction import Lookup, Names
from pywheel.stores.sqlite.dialect import TAIL, Carrier
from tests.stores import calls
from tests.stores.files import NOW, connection_of, plan_of, reopened, traced


def apply(store, command):
    [outcome] = store.apply([command])
    return outcome


def put(store, topic="t", count=1, **more):
    return calls.put(store, *(NewJob(topic, b"b", NOW, **more) for _ in range(count)))


# ---- sums -----------------------------------------------------------------------------------------------------------


def counted(store):
    return connection_of(store).execute("SELECT job FROM counted").fetchone()[0]


def test_a_single_put_writes_no_sum_and_is_counted_all_the_same(store):
    put(store, count=TAIL)
    before = counted(store)
    assert before == TAIL
    for number in range(1, 6):
        [id] = put(store)
        assert counted(store) == before
        assert store.ask(CountJobs()) == {"t": Counts(delayed=TAIL + number)}
    apply(store, c.Cancel(id))
    assert counted(store) == before
    assert store.ask(CountJobs()) == {"t": Counts(delayed=TAIL + 4, cancelled=1)}


def test_the_uncounted_tail_stays_short(store):
    put(store, count=TAIL - 3)
    for number in range(10):
        put(store, key=f"k{number}" if number % 2 else None)
    assert counted(store) >= TAIL
    put(store, topic="u", count=3 * TAIL)
    assert counted(store) == 4 * TAIL + 7
    assert store.ask(CountJobs()) == {"t": Counts(delayed=TAIL + 7), "u": Counts(delayed=3 * TAIL)}


# ---- plans ----------------------------------------------------------------------------------------------------------


def test_the_next_due_time_of_a_topic_is_the_first_of_the_index(store):
    put(store)
    with traced(store) as texts:
        steps = read.next_dues(Lookup(Names("topic"), Names("worker"), ()), GetNextDues(["t"]))
        drive(Carrier(connection_of(store), NOW).send, steps)
    found = plan_of(store, texts[-1])
    assert any("INDEX job_next (state=? AND topic=? AND priority=? AND next>?)" in step for step in found), found
    assert not any("ORDER BY" in step for step in found)


@pytest.mark.parametrize(
    ("command", "index"),
    [
        (c.Cancel(("t", "k")), "job_key"),
        (c.Edit(("t", "k"), 5), "job_key"),
        (c.Delete(("t", "k")), "job_key"),
        (c.Reserve("t", 10, ClaimPolicy(1_000, 3), "w"), "job_next (state=? AND topic=? AND priority=? AND next<?)"),
        (c.Purge(State.CANCELLED, 0, None, 1), "finished_ended (topic=? AND state=? AND ended<?)"),
    ],
    ids=["cancel", "edit", "delete", "claim", "purge"],
)
def test_a_command_reads_no_jobs_but_those_that_it_means(store, command, index):
    put(store, key="k")
    [id] = put(store)
    apply(store, c.Cancel(id))
    with traced(store) as texts:
        assert apply(store, command)
    steps = [step for text in texts if text.startswith(("SELECT", "WITH", "UPDATE")) for step in plan_of(store, text)]
    assert any(index in step for step in steps), steps
    assert not {"SCAN j", "SCAN f"}.intersection(steps), steps
    assert not any("ORDER BY" in step for step in steps), steps


def test_jobs_are_kept_in_the_order_of_their_ends(store):
    """In that of their ids, each end of a few jobs would write some pages of its own."""
    ids = put(store, count=50)
    random.Random(1).shuffle(ids)
    for at in range(0, 50, 5):
        claimed = apply(store, c.Claim("t", tuple(ids[at : at + 5]), ClaimPolicy(60_000, 3), "w", 5))
        assert store.apply([c.Ack(job.id, job.claims) for job in claimed.jobs]) == [True] * 5
    kept = [id for [id] in connection_of(store).execute("SELECT id FROM finished ORDER BY rowid")]
    assert [{*kept[at : at + 5]} for at in range(0, 50, 5)] == [{*ids[at : at + 5]} for at in range(0, 50, 5)]


def test_a_waiting_job_with_a_body_of_128_bytes_takes_less_than_200(path):
    draw = random.Random(1)
    with reopened(path) as store:
        for _ in range(20):
            dues = (NOW + draw.randrange(5_000, 20_000) for _ in range(1_000))
            calls.put(store, *(NewJob("t", b"x" * 128, due) for due in dues))
    assert path.stat().st_size < 200 * 20_000
