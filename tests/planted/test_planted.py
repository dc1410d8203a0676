"""Each planted fault is found by its test, which passes without the fault."""

import json
import os
import subprocess
import sys
import time
from itertools import groupby

import pytest

from tests.isolated.child import ROOT
from tests.planted.planted import FAULTS
from tests.seeds import SEED

pytestmark = pytest.mark.planted

PATIENCE = 300  # seconds


def reports(folder, tests, **variables):
    """Run tests in a process of their own; return what became of each part of each."""
    path = folder / "reports"
    path.touch()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "tests.planted.plugin", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PLANTED_REPORT": str(path), "PYWHEEL_SEED": str(SEED), **variables}
    done = subprocess.run(
        [*command, *tests], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr  # the tests were run
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_planted_is_found(name, tmp_path, record_property):
    fault = FAULTS[name]
    began = time.monotonic()
    found = reports(tmp_path, [fault.test], PLANTED=name, **fault.environment)
    record_property("found", (name, round(time.monotonic() - began, 1), fault.test))
    failed = [report for report in found if report["failed"]]
    assert failed, f"no test finds it: {fault.test} passes"
    assert failed[0]["when"] == "call"
    assert fault.says in failed[0]["text"]


def environment_of(fault):
    return sorted(fault.environment.items())


@pytest.mark.parametrize(
    ("environment", "tests"),
    [
        (dict(environment), sorted({fault.test for fault in faults}))
        for environment, faults in groupby(sorted(FAULTS.values(), key=environment_of), key=environment_of)
    ],
    ids=str,
)
def test_the_same_tests_pass_without_a_fault(environment, tests, tmp_path):
    found = reports(tmp_path, tests, **environment)
    assert not [report for report in found if report["failed"]]
    assert len([report for report in found if report["when"] == "call"]) >= len(tests)
