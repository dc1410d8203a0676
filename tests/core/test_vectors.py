"""Operations with their expected results, in strict order: our own, and recordings of other wheels where present."""

import functools
import json
import os
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from tests.implementations import CORES, SMALL

HERE = Path(__file__).resolve()
OURS = HERE.parents[1] / "vectors"
PEERS = Path(os.environ.get("PYWHEEL_PEER_VECTORS", HERE.parents[3] / "shared" / "vectors-peers"))
CHECK_EVERY = 250


class Single:
    """One call for each operation; the ids of the vectors serve as items."""

    class_name = "TimingWheel"

    def __init__(self, core):
        self.wheel_class = getattr(core, self.class_name)

    def restart(self, start):
        self.wheel = self.wheel_class(start)
        self.handles = {}

    def run(self, kind, operations):
        for operation in operations:
            getattr(self, kind)(*operation[1:])

    def W(self, start):  # noqa: N802  (the methods have the letters of the operations)
        self.restart(start)

    def S(self, name, deadline):  # noqa: N802
        self.handles[name] = self.wheel.schedule(deadline, name)

    def C(self, name, found):  # noqa: N802
        assert self.wheel.cancel(self.handles[name]) is found

    def R(self, name, deadline, found):  # noqa: N802
        assert self.wheel.reschedule(self.handles[name], deadline) is found

    def A(self, now, expired):  # noqa: N802
        assert self.advance(now) == expired
        assert self.wheel.now == now

    def advance(self, now):
        return self.wheel.advance(now)

    def N(self, tick):  # noqa: N802
        bound = self.wheel.next_deadline()
        if tick is None:
            assert bound is None
        else:
            assert self.wheel.now <= bound <= max(self.wheel.now, tick)

    def L(self, count):  # noqa: N802
        assert len(self.wheel) == count

    def B(self, earlier):  # noqa: N802
        before = self.wheel.now, len(self.wheel), self.wheel.next_deadline()
        with pytest.raises(ValueError, match="forwards"):
            self.wheel.advance(earlier)
        assert (self.wheel.now, len(self.wheel), self.wheel.next_deadline()) == before


class Keys(Single):
    class_name = "KeyWheel"


class Portions(Single):
    """A limit of three at a time gives the same, in the same order."""

    def advance(self, now):
        expired = self.wheel.advance(now, 3)
        while portion := self.wheel.advance(now, 3):
            expired += portion
        return expired


class Bulk(Keys):
    """A run of operations of one kind becomes one call."""

    def run(self, kind, operations):
        if kind not in "SCR":
            super().run(kind, operations)
            return
        _, names, *values = zip(*operations, strict=True)
        if kind == "S":
            handles = self.wheel.schedule_many(np.array(values[0], np.uint64), np.array(names))
            self.handles.update(zip(names, handles.tolist(), strict=True))
            return
        handles = np.array([self.handles[name] for name in names], np.uint64)
        if kind == "C":
            found = self.wheel.cancel_many(handles)
        else:
            found = self.wheel.reschedule_many(handles, np.array(values[0], np.uint64))
        assert found.tolist() == list(values[-1])

    def advance(self, now):
        return self.wheel.advance_many(now).tolist()


def replay(driver, operations):
    for step, (kind, run) in enumerate(groupby(operations, key=lambda operation: operation[0]), start=1):
        driver.run(kind, run)
        if step % CHECK_EVERY == 0:
            driver.wheel._check()
    driver.wheel._check()


DRIVERS = [Single, Keys, Portions, Bulk]
# Every driver on both implementations, and two of them on each build with tiny limits.
BUILDS = [(name, driver) for driver in DRIVERS for name in CORES]
BUILDS += [(name, driver) for i, name in enumerate(SMALL) for driver in DRIVERS[i::2]]
EACH_BUILD = pytest.mark.parametrize(
    ("any_core", "driver"), BUILDS, indirect=["any_core"], ids=lambda value: getattr(value, "__name__", value)
)
FILES = [*OURS.glob("timers_*.jsonl"), *PEERS.glob("timers_*.jsonl")]


@functools.cache
def operations_of(file):
    _, *operations = map(json.loads, file.read_text().splitlines())
    return operations


@EACH_BUILD
def test_vectors_give_what_they_say(any_core, driver):
    for file in sorted(FILES):
        try:
            replay(driver(any_core), operations_of(file))
        except Exception as error:
            error.add_note(f"{file.parent.name}/{file.name}")
            raise


def test_every_vector_file_is_there():
    assert len(list(OURS.glob("timers_*.jsonl"))) == 27


@pytest.mark.skipif(not PEERS.is_dir(), reason="no vectors of peers at PYWHEEL_PEER_VECTORS")
@EACH_BUILD
def test_cases_of_peers_give_what_they_say(any_core, driver):
    _, *cases = map(json.loads, (PEERS / "peer_cases.jsonl").read_text().splitlines())
    for case in cases:
        replay(driver(any_core), case["ops"])
