import pytest

from tests.promotion import pairs
from tests.stores.servers import started

KINDS = {"postgres": pairs.PostgresPair, "mariadb": pairs.MariaDBPair, "redis": pairs.SentinelPair}


@pytest.fixture(params=["postgres", "mariadb"])
def synchronous_pair(request):
    """A primary and a replica that each commit waits for."""
    yield from started(KINDS[request.param], synchronous=True)


@pytest.fixture(params=list(KINDS))
def pair(request):
    """A primary and a replica that no commit waits for."""
    yield from started(KINDS[request.param], synchronous=False)
