"""The simulation notices each fault that is planted in its store; otherwise its success would say little."""

import pytest

from tests.worker.simulation import play

SEEDS = 30  # histories in one of which it comes to that
SAID = {  # a plant: what is said of the history that goes wrong
    "claim given twice": "delivered too often': {[0-9]|one too many",
    "ack dropped": "delivered too often': {[0-9]|was lost unstarted",
    "old body": "has an old body",
    "limit passed": "is one too many",
    "early": "is early",
    "cancel dropped": "was cancelled",
    "put lost": "are gone",
    "order broken": "not in order",
    "priority ignored": "was left, of a higher priority",
}


def histories(plant):
    for seed in range(SEEDS):
        play(seed, "memory:", steps=60, plant=plant)


@pytest.mark.parametrize("plant", SAID)
def test_the_simulation_notices(plant):
    with pytest.raises(AssertionError, match=SAID[plant]):
        histories(plant)
