import shutil

import pytest

from tests.frameworks.programs import FOLDER, Program, Project


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name == "frameworks":
            item.add_marker("frameworks")


@pytest.fixture
def start(tmp_path):
    """Starts a server of an example, in a folder of the test's own; the test's end stops it."""
    started = []

    def start(*command, folder=FOLDER, **variables):
        variables.setdefault("PYWHEEL_STORE", f"sqlite:///{tmp_path}/jobs.db")
        variables.setdefault("SHOP_DATABASE", f"sqlite+aiosqlite:///{tmp_path}/jobs.db")
        variables.setdefault("SHOP_ORDERS", str(tmp_path / "orders.db"))
        started.append(Program(command, folder, tmp_path / f"{len(started)}.log", variables))
        return started[-1]

    yield start
    for program in started:
        program.stop()


@pytest.fixture
def shop(start, tmp_path):
    return Project(start, tmp_path)


@pytest.fixture(scope="session")
def database_file(tmp_path_factory):
    """A database of the project that is migrated, to be copied."""
    folder = tmp_path_factory.mktemp("migrated")
    Project(None, folder).manage("migrate", "-v", "0")
    return folder / "db.sqlite3"


@pytest.fixture
def migrated(shop, database_file, tmp_path):
    """The project with a database that is migrated."""
    shutil.copy(database_file, tmp_path)
    return shop
