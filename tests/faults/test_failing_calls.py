"""Each call of the system fails once, while a process lives on a store: a named error, nothing done, nothing lost."""

import json
from collections import Counter

import pytest

from pywheel.stores import open
from pywheel.testing import ManualClock
from tests.faults.calls import needs_preload, run_child
from tests.faults.store_life import NOW, held
from tests.seeds import SEED

pytestmark = [pytest.mark.stress, needs_preload]

FULL, FAILED, DENIED = "StoreFull", "StoreError", "StoreReadOnly"
STEPS = {"w": 4}
"""Of so many calls of a kind one fails, another one with another seed. Of all other kinds each does."""


def lives(folder, error, kind, end="cut off"):
    """Yield for each call that failed what its process told, and what the store holds."""
    step = STEPS.get(kind, 1)
    for line in run_child("failing_child.py", folder, error, kind, end, 1 + SEED % step, step).splitlines():
        life = json.loads(line)
        assert "wrong" not in life, life["wrong"]
        with open(f"sqlite:///{life['file']}", clock=ManualClock(wall=NOW)) as store:
            assert store.verify() == []
            yield life, held(store)


@pytest.mark.drawn(5)
@pytest.mark.parametrize(
    ("error", "kind", "end", "kinds", "least"),
    [
        ("ENOSPC", "w", "cut off", {FULL}, 25),
        ("EIO", "s", "closed", {FAILED}, 10),
        ("EIO", "u", "closed", {FAILED}, 2),
        ("EIO", "t", "cut off", {FAILED}, 1),
        ("EACCES", "o", "cut off", {DENIED}, 5),
        ("EMFILE", "o", "cut off", {FAILED, DENIED}, 5),  # by the time SQLite is asked why there are files again
        # SQLite does not say why its shared memory cannot grow.
        ("EIO", "w", "cut off", {FAILED, FULL}, 25),
        ("EINTR", "w", "cut off", set(), 0),
    ],
)
def test_a_call_that_fails_is_a_named_error_and_nothing_was_done(tmp_path, error, kind, end, kinds, least):
    told = Counter()
    for life, found in lives(tmp_path, error, kind, end):
        told.update(name for name, _ in life["errors"])
        assert found == life["held"]
    assert set(told) <= kinds
    assert told.total() >= least


def test_a_commit_that_the_disk_did_not_confirm_may_have_happened_if_the_program_ends_and_the_error_says_so(tmp_path):
    lost = 0
    for life, found in lives(tmp_path, "EIO", "s"):
        lost += found != life["held"]
        assert found == life["held"] or "may have happened all the same" in life["errors"][-1][1]
    assert lost


@pytest.mark.parametrize(("error", "kind", "kinds"), [("ENOSPC", "w", {FULL}), ("EIO", "s", {FAILED})])
def test_a_worker_goes_on_after_a_call_that_fails_and_handles_each_job_once(tmp_path, error, kind, kinds):
    told = Counter()
    for life, _ in lives(tmp_path, error, kind, "worked off"):
        told.update(name for name, _ in life["errors"])
        assert life["handled"] == [1] * len(life["handled"])
    assert told
    assert set(told) <= kinds
