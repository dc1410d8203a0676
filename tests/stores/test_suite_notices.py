"""The conformance suite notices each fault that is planted in a store: a store of your own passes for good reasons."""

import pytest

from pywheel.stores import open
from pywheel.testing import StoreSuite
from tests.worker.plants import Planted


def run(test, plant=None):
    """Run one test of the suite against a store, with a fault or without."""

    class Suite(StoreSuite):
        def make_store(self, clock):
            store = open("memory:", clock=clock)
            return Planted(store, plant) if plant else store

    suite = Suite()
    suite.setup_method()
    try:
        getattr(suite, test)()
    finally:
        suite.teardown_method()


def notices(plant, test):
    run(test)
    with pytest.raises(AssertionError):
        run(test, plant)


def test_the_suite_notices_a_claim_given_twice():
    notices("claim given twice", "test_of_many_threads_one_gets_each_job")


def test_the_suite_notices_an_ack_dropped():
    notices("ack dropped", "test_a_settlement_of_all_kinds_in_one_call_ends_each_claim_as_by_itself")


def test_the_suite_notices_an_old_body_after_a_replacement():
    notices("old body", "test_replace_takes_the_new_values_and_keeps_id_and_age")


def test_the_suite_notices_an_old_body_after_an_edit():
    notices("old body", "test_a_job_that_is_claimed_by_its_id_has_the_new_body")


def test_the_suite_notices_a_limit_passed():
    notices("limit passed", "test_no_more_than_the_limit_run")


def test_the_suite_notices_a_job_that_is_early():
    notices("early", "test_a_delay_counts_from_the_stores_clock")


def test_the_suite_notices_a_job_after_its_cancel_returned_true():
    notices("cancel dropped", "test_a_cancelled_job_is_never_delivered")


def test_the_suite_notices_a_put_lost():
    notices("put lost", "test_jobs_come_by_due_time_then_by_id")


def test_the_suite_notices_an_order_broken_by_priority():
    notices("order broken", "test_what_is_due_comes_by_priority_then_by_due_time_then_by_id")


def test_the_suite_notices_a_job_that_overtakes_one_of_a_higher_priority():
    notices("priority ignored", "test_a_claim_of_the_first_goes_by_priority")
