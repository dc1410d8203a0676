"""The address of an empty store, of each kind in turn."""

import pytest

__all__ = ["url"]


@pytest.fixture
def url(any_url):
    return any_url
