"""Operations of a queue with their expected results, on Redis; also reopened after every operation."""

import pytest

from tests.stores.test_vectors import VECTORS, replay


@pytest.mark.parametrize("reopen", [False, True], ids=["open", "reopened"])
@pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.stem)
def test_a_store_on_redis_gives_the_expected_results(file, reopen, redis_server):
    replay(redis_server.url(), file, reopen=reopen)
