import pytest

from pywheel.testing import QueueTester


@pytest.fixture
def clock():
    """The clock of the tester; None: one of its own."""


@pytest.fixture
def tester(clock):
    with QueueTester(clock=clock) as tester:
        yield tester


@pytest.fixture
def queue(tester):
    return tester.queue
