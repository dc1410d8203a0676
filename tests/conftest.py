"""One contract, one test body: the fixtures run it on every implementation."""

import gc
import itertools
import os
import re
import signal
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests import real_time, seeds
from tests.implementations import CORES, MODULES, SMALL, TINY_POOL, load
from tests.often import often
from tests.outlets.brokers import Nats, RabbitMQ
from tests.stores import servers

_COMMON = settings(
    deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
_ALWAYS_THE_SAME = {"derandomize": True, "database": None}
settings.register_profile("quick", _COMMON, max_examples=20, **(_ALWAYS_THE_SAME if os.environ.get("CI") else {}))
settings.register_profile("ci", _COMMON, max_examples=60, **_ALWAYS_THE_SAME)
settings.register_profile("deep", _COMMON, max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "quick"))


# Folders all of whose tests have the marker. (Others have it on some.)
WHOLE = {
    **dict.fromkeys(("on_mysql", "on_postgres", "on_redis", "promotion"), "servers"),
    **{name: name for name in ("clients", "frameworks", "packaging", "planted")},
}
STORES_ON_SERVERS = {"mariadb", "mysql", "on_mysql", "on_postgres", "on_redis", "postgres", "promotion", "redis"}
OF_A_SERVER = re.compile(f"({'|'.join(STORES_ON_SERVERS)})(-[0-9].*)?")  # postgres-4: as that version made it
_numbers = itertools.count(1)
NOTHING = SimpleNamespace(params={})

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # begun in the background by a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)  # for the children that are to be interrupted


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage meanwhile: what is made stays. Later collections leave it out: many tests collect."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_configure(config):
    config.pluginmanager.register(seeds)
    config.pluginmanager.register(real_time)
    try:
        for name in CORES:
            load(name)
    except (ImportError, RuntimeWarning) as error:  # the warning that the extension is missing
        raise pytest.UsageError(
            f"{MODULES[name]} cannot be imported ({error}): "
            "build the extension, or set PYWHEEL_PURE=1 to test the twin alone"
        ) from error


def pytest_ignore_collect(collection_path, config):
    """Leave out folders of which nothing is asked for: each process of pytest would import and make them all."""
    marker = WHOLE.get(collection_path.name)
    wanted = (config.getoption("markexpr") or "").split(" and ")
    return True if marker and f"not {marker}" in wanted and collection_path.is_dir() else None


def pytest_collection_modifyitems(items):
    """Mark what needs a server, and what `make stress` has on the disk."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        values = getattr(item, "callspec", NOTHING).params.values()
        given = [value for value in values if isinstance(value, str)]
        if (
            item.path.parent.name in STORES_ON_SERVERS
            or any(map(OF_A_SERVER.fullmatch, given))
            or any(name.endswith("_server") for name in fixtures)
        ):
            item.add_marker("servers")
        if "sqlite" in item.nodeid.lower() and item.nodeid.startswith("tests/stores/"):
            item.add_marker("disk")


@pytest.fixture(scope="session", params=CORES)
def core(request):
    """The module of an implementation."""
    return load(request.param)


@pytest.fixture(scope="session", params=CORES + SMALL)
def any_core(request):
    """The same, and the native one with tiny limits."""
    return load(request.param)


@pytest.fixture(scope="session", params=[name for name in CORES if name == "native"])
def native_core(request):
    """The native one alone, for what only memory that it manages itself can show."""
    return load(request.param)


@pytest.fixture(scope="session", params=SMALL)
def small_core(request):
    """The native one with tiny limits alone."""
    return load(request.param)


@pytest.fixture(scope="session", params=TINY_POOL)
def tiny_pool(request):
    """The native one with room for fifty timers."""
    return load(request.param)


@pytest.fixture(params=["TimingWheel", "KeyWheel"])
def wheel_class(request, core):
    """A wheel class; with small ints as items, both behave the same."""
    return getattr(core, request.param)


@pytest.fixture(params=["TimingWheel", "KeyWheel"])
def any_wheel_class(request, any_core):
    return getattr(any_core, request.param)


@pytest.fixture
def restless():
    """Switch threads as often as the interpreter can."""
    from tests.timers.crowd import restless

    with restless():
        yield


@pytest.fixture
def eager_collector():
    """Collect at every allocation that counts."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1, 1, 1)
    yield
    gc.set_threshold(*before)


@pytest.fixture(scope="session")
def postgres_server():
    """A running PostgreSQL of this process, without fsync. A test that kills, stops or pauses it starts it again."""
    yield from servers.started(servers.Postgres)


@pytest.fixture(scope="session")
def mariadb_server():
    yield from servers.started(servers.MariaDB)


@pytest.fixture(scope="session")
def redis_server():
    yield from servers.started(servers.Redis)


@pytest.fixture(scope="session")
def pgbouncer_server(postgres_server):
    yield from servers.started(servers.PgBouncer, postgres_server)


@pytest.fixture(scope="session")
def rabbitmq_server():
    yield from servers.started(RabbitMQ)


@pytest.fixture(scope="session")
def nats_server():
    yield from servers.started(Nats)


@pytest.fixture
def stream():
    """A name that no other test uses, for what is kept in a broker."""
    return f"stream{next(_numbers)}"


@pytest.fixture(params=servers.STORES)
def server(request):
    """A running server of each kind that has a store. A test that ends the server starts it again."""
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture(params=servers.STORES)
def durable_server(request):
    """One of a test's own, with fsync: to be killed."""
    yield from servers.started(servers.KINDS[request.param], fsync=True)


def address(request, tmp_path):
    """Return the address of an empty store of the kind that a fixture's parameter says."""
    if request.param == "memory":
        return "memory:"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return request.getfixturevalue(f"{request.param}_server").url()


@pytest.fixture(params=["sqlite", *servers.STORES])
def shared_url(request, tmp_path):
    """The address of an empty store of each kind that several processes share."""
    return address(request, tmp_path)


@pytest.fixture(params=[*often(["memory", "sqlite"]), *servers.STORES])
def any_url(request, tmp_path):
    """The address of an empty store of each kind."""
    return address(request, tmp_path)
