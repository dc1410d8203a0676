import pytest

from tests.jobs.fixtures import clock, live_queue, metrics, queue

__all__ = ["clock", "live_queue", "metrics", "queue"]


@pytest.fixture
def url():
    """In memory: a client asks all stores alike, and their suite tells that they answer alike."""
    return "memory:"
