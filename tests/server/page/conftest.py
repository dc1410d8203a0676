"""A site for each test."""

import contextlib

import pytest

from pywheel import JobQueue

from .site import Site, tokens


@pytest.fixture
def queue():
    with JobQueue("memory:") as queue:
        yield queue


@pytest.fixture
def sites():
    """Return a function that starts a site; they end with the test."""
    with contextlib.ExitStack() as stack:

        def start(queue, **options):
            site = Site(queue, **options)
            stack.callback(site.stop)
            return site

        yield start


@pytest.fixture
def site(queue, sites):
    """A site that lets everybody do everything."""
    return sites(queue)


@pytest.fixture
def guarded(queue, sites):
    """A site with tokens: viewer, operator, admin, worker, shop_admin."""
    return sites(queue, known=tokens())


@pytest.fixture
def client(site):
    with site.client() as client:
        yield client
