"""A process is killed before each of its statements, also those that make the file. Every answer it got is true."""

import json
import signal
from pathlib import Path

import pytest

from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import Filter, ListJobs
from pywheel.stores import open
from pywheel.testing import ManualClock
from tests.faults.store_life import NOW, deliver_the_rest, held
from tests.isolated.child import run_well

pytestmark = pytest.mark.stress

CHILD = str(Path(__file__).with_name("crash_child.py"))
AT_MOST = 400


def notes(folder, at):
    """Return how many steps a process had begun, how many had ended, and what the store held after these."""
    file = folder / f"{at}.txt"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return sum(what == "begin" for what, _ in lines), [value for what, value in lines if what == "end"]


@pytest.mark.parametrize("part", range(5))
def test_killed_before_any_statement_nothing_told_is_untrue(tmp_path, part):
    numbers = range(1 + part, AT_MOST, 5)
    printed = run_well(CHILD, tmp_path, "0", *map(str, numbers), timeout=600)
    codes = dict(map(int, line.split()) for line in printed.splitlines())
    steps, states = notes(tmp_path, 0)
    states = [[], *states]
    assert (steps, len(states)) == (25, 26)
    *killed, last = list(codes)[1:]
    assert codes[last] == 0, "the plan has more statements than were tried"
    for at in killed:
        assert codes[at] == -signal.SIGKILL
        begun, ended = notes(tmp_path, at)
        with open(f"sqlite:///{tmp_path}/{at}.db", clock=ManualClock(wall=NOW)) as store:
            assert held(store) in states[len(ended) : begun + 1], at
            assert store.verify() == []
            before = {job.id for job in store.ask(ListJobs(Filter()))}
            deliver_the_rest(store, ["t"])
            send_again(store, before)


def send_again(store, before):
    """A put that happened does not happen again, one that did not does."""
    stored = len(store.ask(ListJobs(Filter())))
    for number in range(3):
        ids = [2 * number + 1, 2 * number + 2]
        happened = not before.isdisjoint(ids)
        [outcome] = store.apply([ops.Put((NewJob("t", b"", NOW), NewJob("t", b"", NOW)), f"n{number}")])
        assert outcome == ids or not happened
        stored += 2 * (not happened)
        assert len(store.ask(ListJobs(Filter()))) == stored
