import asyncio
from importlib.util import find_spec

import pytest

from pywheel import JobQueue
from pywheel.jobs import Job, State
from pywheel.outlets import Webhook
from tests.outlets.endpoint import Endpoint

# On a Python for which there are none of them.
collect_ignore = []
if find_spec("aiohttp") is None:
    names = ("addresses", "answers", "bad_endpoints", "config", "deliver", "destinations", "shares", "webhook")
    collect_ignore += [f"test_{name}.py" for name in names]
elif find_spec("cryptography") is None:
    collect_ignore += ["test_bad_endpoints.py", "test_config.py"]

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def endpoint():
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def queue():
    with JobQueue("memory:") as queue:
        yield queue


@pytest.fixture(params=["rabbitmq", "redis", "nats"])
def broker(request, stream):
    """A place of a broker of each kind."""
    from tests.outlets.places import PLACES

    return PLACES[request.param](request.getfixturevalue(f"{request.param}_server"), stream)


def a_job(body=b'{"n":1}', id=7, **changes):
    changes = {"claims": 1, "attempt": 1, "headers": {}, **changes}
    return Job(id, "t", body, due=0, created=1_700_000_000_000, state=State.RUNNING, **changes)


def inside(*arguments, **options):
    """Return a webhook that may reach the tests' own endpoints."""
    return Webhook(*arguments, **{"allow": ["127.0.0.0/8", "::1"], "ports": None, "timeout": 20, **options})


def deliver(outlet, *jobs):
    """Deliver jobs one after the other; return what each raised, or None."""

    async def program():
        found = []
        for job in jobs or (a_job(),):
            try:
                await outlet(job)
            except Exception as error:
                found.append(error)
            else:
                found.append(None)
        await outlet.aclose()
        return found

    found = asyncio.run(program())
    return found if jobs else found[0]
