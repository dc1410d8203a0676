"""A run prints its seed, and another run with that seed draws the same, with and without pytest-xdist."""

import json
import re
import subprocess
import sys

import pytest

from tests.isolated.child import environment

pytestmark = pytest.mark.stress

DRAWS = """
import json, os, random
from pathlib import Path
import pytest
from hypothesis import given, settings, strategies as st

def note(*drawn):
    with Path(__file__).with_name("drawn").open("a") as file:
        file.write(json.dumps(drawn) + "\\n")

@pytest.mark.drawn(3)
@pytest.mark.parametrize("number", range(200))
def test_lots(number):
    note("lots", number, os.environ["PYWHEEL_SEED"], random.random())

@settings(database=None)
@given(st.integers())
def test_examples(number):
    note("examples", number)

def test_fails():
    raise AssertionError
"""


@pytest.fixture
def drawn(tmp_path):
    """What runs pytest on some tests that draw, and returns what it printed, its lots and its examples."""
    (tmp_path / "pytest.ini").write_text("[pytest]")
    (tmp_path / "test_draws.py").write_text(DRAWS)

    def run(*options, seed=None, ci="1"):
        (tmp_path / "drawn").write_text("")
        arguments = [sys.executable, "-m", "pytest", "-p", "tests.seeds", "-p", "no:cacheprovider", *options]
        variables = environment(PYWHEEL_SEED=seed, CI=ci, HYPOTHESIS_PROFILE=None, PYWHEEL_REOPEN="1")
        result = subprocess.run(
            arguments, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=120, check=False
        )
        assert result.returncode == 1, result.stdout + result.stderr
        lines = list(map(json.loads, (tmp_path / "drawn").read_text().splitlines()))
        lots, examples = ([line[1:] for line in lines if line[0] == word] for word in ("lots", "examples"))
        return result.stdout, sorted(lots), examples

    return run


def test_a_failure_says_the_seed_and_the_command_that_draws_the_same_again(drawn):
    said, lots, _ = drawn("-n", "2")
    [seed] = set(re.findall(r"PYWHEEL_SEED=(\d+)", said))
    assert {lot[1] for lot in lots} == {seed}
    repeats = rf"^PYWHEEL_SEED={seed} CI=1 PYWHEEL_REOPEN=1 \S+ -m pytest test_draws.py::test_fails$"
    assert re.search(repeats, said, re.MULTILINE)
    assert drawn("-n", "0", seed=seed)[1] == lots
    assert drawn("-n", "0", seed=str(int(seed) + 1))[1] != lots


def test_ci_runs_as_many_examples_as_a_test_says_and_others_with_another_seed(drawn):
    one, another, all_of_them = (
        [lot[0] for lot in drawn("-n", "0", seed=seed, ci=ci)[1]] for seed, ci in (("1", "1"), ("2", "1"), ("1", None))
    )
    assert len(one) == len(another) == 3
    assert one != another
    assert all_of_them == list(range(200))


def test_examples_follow_from_the_seed_of_hypothesis_in_every_profile(drawn):
    said, _, examples = drawn("-n", "2", "--hypothesis-seed=5")
    assert "-m pytest --hypothesis-seed=5 test_draws.py::test_fails" in said
    assert drawn("-n", "0", "--hypothesis-seed=5")[2] == examples
    assert drawn("-n", "0", "--hypothesis-seed=6")[2] != examples
