"""Limits of workers that are killed, on each server."""

import pytest

from tests.worker.limited import most_at_once


@pytest.mark.drawn(2)
@pytest.mark.parametrize("limit", [1, 2])
def test_workers_that_are_killed_never_run_more_than_the_limit(server, limit, tmp_path):
    assert most_at_once(server.url(), tmp_path, limit) <= limit
