"""The seed of a run, from which all random choices of tests follow, also in the processes of pytest-xdist.

`PYWHEEL_SEED` gives it, else it is drawn once, and printed. Examples of Hypothesis follow from `--hypothesis-seed`.
"""

import os
import random
import shlex
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

MOST = 10  # commands in the summary
NAME = "PYWHEEL_SEED"
AMOUNTS = tuple(f"PYWHEEL_{what}" for what in ("REOPEN", "CRASHES", "SIMULATIONS", "CUTS", "FUZZ"))
DECIDE = (NAME, "CI", "HYPOTHESIS_PROFILE", *AMOUNTS)  # variables by which a test does what it does

if not int(os.environ.get(NAME) or 0):
    os.environ[NAME] = str(random.randrange(1, 10**6))
SEED = int(os.environ[NAME])


def pytest_configure(config):
    """Let `--hypothesis-seed` count: a profile whose examples are always the same has no use for it."""
    if config.getoption("hypothesis_seed", None) is not None:
        settings.register_profile("seeded", settings.default, derandomize=False)
        settings.load_profile("seeded")


@pytest.hookimpl(trylast=True)  # of those that `-m` and `-k` left
def pytest_collection_modifyitems(config, items):
    """With CI set, leave as many examples of a test as its marker `drawn` says, others with each seed."""
    if not os.environ.get("CI"):
        return
    examples = defaultdict(list)
    for item in items:
        if (marker := item.get_closest_marker("drawn")) is not None:
            examples[item.path, item.originalname, *marker.args].append(item)
    out = set()
    for (_, name, most), found in examples.items():
        out.update(random.Random(f"{SEED} {name}").sample(found, max(0, len(found) - most)))
    config.hook.pytest_deselected(items=[item for item in items if item in out])
    items[:] = [item for item in items if item not in out]


def pytest_report_header(config):
    return f"{NAME}={SEED}"


def pytest_runtest_setup(item):
    """Let what draws without a generator of its own draw the same in each run, whatever ran before."""
    random.seed(f"{SEED} {item.nodeid}")


def pytest_terminal_summary(terminalreporter, config):
    """Say how to repeat what failed."""
    reports = [*terminalreporter.stats.get("failed", ()), *terminalreporter.stats.get("error", ())]
    failed = list(dict.fromkeys(report.nodeid for report in reports))
    if failed:
        terminalreporter.section("to repeat what failed")
        for test in failed[:MOST]:
            terminalreporter.line(command(config, test))
        if len(failed) > MOST:
            terminalreporter.line(f"and {len(failed) - MOST} more")


def command(config, test):
    """Return the command that runs a test with the same seeds."""
    variables = [f"{name}={os.environ[name]}" for name in DECIDE if name in os.environ]
    python = Path(sys.executable)
    if python.is_relative_to(config.rootpath):
        python = python.relative_to(config.rootpath)
    seed = config.getoption("hypothesis_seed", None)
    options = [] if seed is None else [f"--hypothesis-seed={seed}"]
    return shlex.join([*variables, str(python), "-m", "pytest", *options, test])
