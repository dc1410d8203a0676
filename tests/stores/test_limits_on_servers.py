"""Limits of workers that are killed, on each server."""

import pytest

from tests.worker.limited import most_at_once

pytestmark = pytest.mark.servers


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("kind", ["postgres_server", "mariadb_server", "redis_server"])
def test_workers_that_are_killed_never_run_more_than_the_limit(kind, limit, request, tmp_path):
    server = request.getfixturevalue(kind)
    assert most_at_once(server.url(), tmp_path, limit) <= limit
