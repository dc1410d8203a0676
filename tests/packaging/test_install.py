"""An installation by a user, with a compiler and without."""

import os
import signal
import subprocess

import pytest

from tests.docs.pages import blocks, prose
from tests.packaging.tools import INHERITED, ROOT, python, run

pytestmark = pytest.mark.packaging

SMOKE = """
import warnings
from importlib.metadata import version
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import pywheel
    import pywheel.core
assert pywheel.__version__ == version("pywheel-timer"), pywheel.__version__
wheel = pywheel.TimingWheel()
late, early = wheel.schedule(2**40, "late"), wheel.schedule(3, "early")
assert wheel.cancel(late) and not wheel.cancel(late)
assert wheel.advance(2) == [] and wheel.advance(3) == ["early"] and not wheel
print(pywheel.implementation, *(warning.category.__name__ for warning in seen))
"""

BROKEN = {"CC": "/bin/false"}
unix_only = pytest.mark.skipif(os.name == "nt", reason="the compiler is not chosen by CC on Windows")


def test_the_wheel_runs_natively_without_a_warning_and_brings_nothing_called_wheel(wheel, environment):
    environment.install(wheel)
    assert environment.run(SMOKE).split() == ["native"]
    assert environment.run("import importlib.util; print(importlib.util.find_spec('wheel'))").split() == ["None"]


def test_the_pure_wheel_runs_with_one_warning_silently_if_it_was_asked_for_and_never_as_a_native_one(
    pure_wheel, environment
):
    environment.install(pure_wheel)
    assert environment.run(SMOKE).split() == ["pure", "RuntimeWarning"]
    assert environment.run(SMOKE, PYWHEEL_PURE="1").split() == ["pure"]
    assert "ImportError" in run([environment.python, "-c", SMOKE], check=False, PYWHEEL_REQUIRE_NATIVE="1")[1]


def wait_for(line, command, folder, environment):
    """Run a program until it prints a line; then end it as a service manager does."""
    path = f"{environment.python.parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**INHERITED, "PATH": path, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True) as program:
        assert any(said == line for said in program.stdout)
        program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=60) == 0


@unix_only
def test_a_newcomer_gets_a_job_delivered_by_the_first_lines_of_the_readme(wheel, environment, tmp_path):
    assert "`pip install pywheel-timer`" in prose("README.md")
    environment.install(wheel)
    code = blocks("README.md", "py")[0]
    assert len(code.splitlines()) <= 10
    wait_for("closing order 7\n", [environment.python, "-c", code], tmp_path, environment)


@unix_only
def test_a_newcomer_gets_a_job_delivered_by_the_command_line(wheel, environment, tmp_path):
    install, *lines, work = blocks("docs/jobs.md", "sh")[1].splitlines()
    assert install == "pip install 'pywheel-timer[cli]'"
    assert len(lines) <= 3
    environment.install(f"{wheel}[cli]")
    script = "\n".join(["set -e", *lines, f"exec {work}"])
    wait_for("hello, world\n", ["sh", "-c", script], tmp_path, environment)


def test_all_extras_go_together(wheel, environment):
    environment.install("--only-binary", ":all:", f"{wheel}[all]")
    assert (
        run([*python("-m", "pip", "--python", environment.python, "check")]).strip() == "No broken requirements found."
    )
    assert environment.run(SMOKE).split() == ["native"]
    assert "serve" in run([environment.python, "-m", "pywheel.cli", "--help"])


@unix_only
def test_a_broken_compiler_gives_the_twin_and_says_so(sdist, environment):
    output = environment.install("--verbose", "--no-cache-dir", sdist, **BROKEN)
    assert "the native modules were NOT built" in output
    assert environment.run(SMOKE).split() == ["pure", "RuntimeWarning"]


@unix_only
@pytest.mark.drawn(1)
@pytest.mark.parametrize("name", ["PYWHEEL_REQUIRE_NATIVE", "CIBUILDWHEEL"])
def test_a_broken_compiler_is_an_error_where_the_extension_is_required(sdist, tmp_path, name):
    command = [*python("-m", "pip"), "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, sdist]
    code, output = run(command, check=False, **BROKEN, **{name: "1"})
    assert code != 0
    assert "/bin/false" in output
    assert not list(tmp_path.glob("*.whl"))


def test_an_editable_install_runs_the_sources_and_brings_nothing_called_wheel():
    """This environment has one: `make` installs the sources so."""
    assert run([*python("-c", SMOKE)]).split() == ["native"]
    places = "import importlib.util, pywheel.core._wheel as w; print(w.__file__, importlib.util.find_spec('wheel'))"
    library, namespace = run([*python("-c", places)]).split(maxsplit=1)
    assert library.startswith(str(ROOT / "src" / "pywheel" / "core"))
    assert str(ROOT / "src") not in namespace
