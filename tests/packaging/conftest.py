"""The distributions, built once, as a release builds them: the sdist from the sources, the wheels from the sdist."""

import tarfile

import pytest

from tests.packaging.tools import AS_RELEASED, Environment, python, run, sdist_of_a_copy


@pytest.fixture(scope="session")
def sdist(tmp_path_factory):
    return sdist_of_a_copy(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def build_wheel(sdist, tmp_path_factory):
    """Build a wheel from the sdist, with options of pip's and some environment variables set."""

    def build(*options, **variables):
        folder = tmp_path_factory.mktemp("wheel")
        command = [*python("-m", "pip"), "wheel", "--no-deps", *options, "--wheel-dir", folder, sdist]
        run(command, **AS_RELEASED, **variables)
        return next(folder.glob("*.whl"))

    return build


@pytest.fixture(scope="session")
def wheel(build_wheel):
    """The wheel with the extension, built in isolation."""
    return build_wheel(PYWHEEL_REQUIRE_NATIVE="1")


@pytest.fixture(scope="session")
def pure_wheel(build_wheel):
    """The wheel without."""
    return build_wheel("--no-build-isolation", PYWHEEL_PURE="1")


@pytest.fixture(scope="session")
def unpacked(sdist, tmp_path_factory):
    """The sdist's folder, unpacked where nothing else is."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Debian's Python 3.11 has none
        archive.extractall(folder, **safely)
    return next(folder.iterdir())


@pytest.fixture
def environment(tmp_path):
    """A virtual environment with nothing in it."""
    return Environment(tmp_path / "environment")
