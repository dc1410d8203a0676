"""Another Cython project compiles against the installed package, with nothing but the package."""

import shutil
from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.packaging.tools import AS_RELEASED, Environment, run

pytestmark = pytest.mark.packaging

USE = """
import client, pywheel
*keys, bound = client.run()
assert keys == [10, 30], keys
assert 2**40 <= bound <= 2**62, bound
wheel = pywheel.KeyWheel()
handles = [wheel.schedule(tick, tick) for tick in range(7)]
wheel.cancel(handles[3])
assert client.pending(wheel) == len(wheel) == 6
assert client.due(0.1) == 100_000_000
import guide
assert guide.payloads_in_order(4) == 1 * 3 + 2 * 4 + 3 * 2
print("driven")
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """One with Cython."""
    environment = Environment(tmp_path_factory.mktemp("cimport") / "environment")
    environment.install("setuptools", "Cython")
    return environment


@pytest.fixture(params=["wheel", "editable"])
def installed(request, environment):
    """An environment with Cython and pywheel: its wheel, or the editable install that lays its files out like one."""
    if request.param == "wheel":
        environment.install("--force-reinstall", request.getfixturevalue("wheel"))
    else:
        folder = request.getfixturevalue("unpacked")
        strict = ["--no-build-isolation", "--config-settings", "editable_mode=strict"]
        environment.install("--editable", folder, *strict, PYWHEEL_REQUIRE_NATIVE="1", **AS_RELEASED)
    return environment


@pytest.mark.drawn(1)
def test_a_client_drives_the_wheel_without_the_gil_and_without_python_objects(installed, tmp_path):
    client = shutil.copytree(Path(__file__).parent / "client", tmp_path / "client")
    [guide] = blocks("docs/core.md", "cython")
    (client / "guide.pyx").write_text(guide)
    run([installed.python, "setup.py"], cwd=client, CFLAGS="-O0")
    assert run([installed.python, "-c", USE], cwd=client).split() == ["driven"]
