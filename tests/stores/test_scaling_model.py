"""The model behind docs/scaling.md, compared with results on paper; and that it runs."""

import pytest

from benchmarks.report.text import with_part
from benchmarks.scaling.kinds import Kind, kinds
from benchmarks.scaling.model import Setup, simulate
from benchmarks.scaling.servers import Way


def outcome_of(kind, **options):
    return simulate(Setup(kind, background=False, **options))


def drained(kind, jobs=10_000, **options):
    return outcome_of(kind, backlog=jobs, **options)


def mean(outcome):
    return sum(outcome.late) / len(outcome.late)


@pytest.mark.parametrize("way", Way)
def test_one_worker_on_one_store_delivers_a_batch_in_each_time_of_a_step(way):
    kind = Kind("x", way, flush=1e-3, step=2e-4, deliver=20e-6, worker_step=3e-4, worker=30e-6)
    outcome = drained(kind, trip=5e-4)
    assert outcome.rate == pytest.approx(1_000 / (1e-3 + 2e-4 + 3e-4 + 5e-4 + 1_000 * 50e-6))
    assert outcome.batch == 1_000
    assert outcome.jobs == 10_000


@pytest.mark.parametrize("load", [0.1, 0.6])
def test_lateness_with_claims_one_by_one_is_that_of_a_queue_with_one_server_and_constant_service(load):
    service = 1e-3
    outcome = outcome_of(Kind("x", deliver=service), rate=load / service, seconds=20, most=1)
    assert mean(outcome) == pytest.approx(service * (1 + load / 2 / (1 - load)), rel=0.03)


def test_at_low_load_a_job_is_late_by_one_step():
    kind = Kind("x", flush=1e-3, step=2e-4, deliver=1e-5, worker_step=3e-4, worker=1e-5)
    outcome = outcome_of(kind, rate=2, seconds=200, trip=1e-3)
    assert outcome.percentile(50) == pytest.approx(1e-3 + 2e-4 + 3e-4 + 2e-5 + 1e-3)


def test_workers_that_wait_for_themselves_alone_add_up():
    kind = Kind("x", worker=50e-6)
    one, four = (drained(kind, 64_000, workers=count).rate for count in (1, 4))
    assert one == pytest.approx(1 / 50e-6)
    assert four == pytest.approx(4 * one)


@pytest.mark.parametrize(("way", "cores"), [(Way.TOGETHER, 2), (Way.LOOP, 1), (Way.LOCK, 1)])
def test_no_number_of_workers_gets_more_from_a_server_than_its_cores(way, cores):
    outcome = drained(Kind("x", way, deliver=50e-6), 40_000, workers=16, server_cores=2)
    assert outcome.rate <= cores / 50e-6 * 1.001
    assert outcome.rate == pytest.approx(cores / 50e-6, rel=0.15)


def test_one_flush_serves_all_that_commit_at_the_time_and_a_lock_serves_one():
    shared, alone = (
        drained(Kind("x", way, flush=1e-2), 4_000, workers=16, most=10).rate for way in (Way.TOGETHER, Way.LOCK)
    )
    assert alone == pytest.approx(10 / 1e-2, rel=0.05)
    assert shared > 3 * alone


def test_a_disk_writes_no_more_than_it_can():
    outcome = drained(Kind("x", flush=1e-6, bandwidth=1e6, deliver_bytes=500.0), 10_000, workers=8)
    assert outcome.rate == pytest.approx(2_000, rel=0.05)


def test_what_is_due_in_a_dead_workers_slices_waits_for_the_next_owner():
    outcome = outcome_of(Kind("x", deliver=1e-5), workers=4, rate=1_000, seconds=8, killed=2, detected=3)
    assert outcome.percentile(50) < 0.01
    assert 0.05 < outcome.percentile(99) < outcome.percentile(100) < 0.4
    assert outcome.jobs == pytest.approx(8_000, rel=0.05)


def test_what_a_dead_worker_held_is_due_again_after_a_second():
    outcome = drained(Kind("x", flush=5e-3), 10, workers=2, killed=1e-3)
    assert outcome.late == pytest.approx([1 + 2 * 5e-3] * 10)


def test_a_worker_behind_is_helped_within_two_slices():
    kind = Kind("x", worker=50e-6)
    one, four = (outcome_of(kind, workers=count, rate=40_000, seconds=2) for count in (1, 4))
    assert one.percentile(99) > 1
    assert 0.02 < four.percentile(99) < 0.12


def test_looks_grow_with_slices_and_not_with_jobs():
    kind = Kind("x", look=1e-4)
    few, many = (outcome_of(kind, workers=8, rate=rate, seconds=4, server_cores=1).server for rate in (200, 1_000))
    assert few == pytest.approx(20 * 1e-4, rel=0.1)  # twenty slices begin in a second
    assert many == pytest.approx(few, rel=0.1)


def test_a_store_that_was_away_is_caught_up_with():
    outcome = outcome_of(Kind("x", deliver=1e-5), workers=2, rate=1_000, seconds=10, away=(2, 5))
    assert 3 <= outcome.percentile(100) <= 4.5
    assert outcome.jobs == pytest.approx(10_000, rel=0.05)


def test_wake_ups_wait_for_one_lock_which_takes_longer_with_each_that_listens():
    kind = Kind("x", deliver=1e-5, ring_each=1e-4)
    setup = {"rate": 2_000, "seconds": 2, "put_batch": 1, "server_cores": 2}
    far, near = (simulate(Setup(kind, workers=16, near=part, **setup)) for part in (0.0, 1.0))
    assert near.server > 2 * far.server


def test_a_setup_has_the_same_outcome_each_time():
    setup = Setup(kinds()["PostgreSQL"], workers=3, rate=5_000, seconds=0.5)
    assert simulate(setup).late == simulate(setup).late


def test_a_table_is_put_between_its_marks():
    page = "a\n<!-- x -->\nold\n<!-- /x -->\nb"
    assert with_part(page, "x", "new") == "a\n<!-- x -->\n\nnew\n\n<!-- /x -->\nb"
    assert with_part(page, "y", "new") == page
