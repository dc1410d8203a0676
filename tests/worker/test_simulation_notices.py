"""The simulation notices each fault that is planted in its store: else what it finds right says little."""

import pytest

from tests.worker.simulation import play

SEEDS = 30  # histories in one of which it comes to that


def histories(plant):
    for seed in range(SEEDS):
        play(seed, "memory:", steps=60, plant=plant)


def notices(plant, *words):
    """Play histories until one goes wrong; it is to say one of these words."""
    with pytest.raises(AssertionError, match="|".join(words)):
        histories(plant)


def test_the_simulation_notices_a_claim_given_twice():
    notices("claim given twice", "delivered too often': {[0-9]", "one too many")


def test_the_simulation_notices_an_ack_dropped():
    notices("ack dropped", "delivered too often': {[0-9]", "was lost unstarted")


def test_the_simulation_notices_an_old_body_after_a_replacement():
    notices("old body", "has an old body")


def test_the_simulation_notices_a_limit_passed():
    notices("limit passed", "is one too many")


def test_the_simulation_notices_a_job_that_is_early():
    notices("early", "is early")


def test_the_simulation_notices_a_job_after_its_cancel_returned_true():
    notices("cancel dropped", "was cancelled")


def test_the_simulation_notices_a_put_lost():
    notices("put lost", "are gone")


def test_the_simulation_notices_an_order_broken_by_priority():
    notices("order broken", "not in order")


def test_the_simulation_notices_a_job_that_overtakes_one_of_a_higher_priority():
    notices("priority ignored", "was left, of a higher priority")
