"""Random operations on a TTLDict, against a dict of deadlines that is searched whole each time."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

KEYS = st.integers(0, 8)
VALUES = st.integers()
TTL = 1000
# In nanoseconds: small ones, so that deadlines meet, and those around the bounds of the wheel's levels.
SPANS = st.one_of(st.integers(-1, 20), st.sampled_from([255, 256, 257, 65535, 65536, 65537, 2**24, 2**32 + 1, 2**40]))


class Model:
    """The contract said in the dumbest way."""

    def __init__(self, maxsize, piece):
        self.maxsize = maxsize
        self.piece = piece  # how many keys an operation on one of them drops
        self.now = 0
        self.items = {}  # key: (value, deadline, order of the last set or touch, ttl)
        self.order = 0
        self.told = []

    def live(self):
        return [key for key, item in self.items.items() if item[1] > self.now]

    def sweep(self, most=None):
        due = sorted((item[1], item[2], key) for key, item in self.items.items() if item[1] <= self.now)[:most]
        self.told += [(key, self.items.pop(key)[0]) for *_, key in due]
        return len(due)

    def sweep_for(self, key):
        self.sweep(self.piece)
        if key in self.items and self.items[key][1] <= self.now:
            self.told.append((key, self.items.pop(key)[0]))

    def set(self, key, value, ttl):
        self.sweep_for(key)
        self.put(key, value, ttl)

    def put(self, key, value, ttl):
        evicted = None
        if self.maxsize is not None and key not in self.items and len(self.items) == self.maxsize:
            evicted = min(self.items, key=lambda key: self.items[key][2])
            self.told.append((evicted, self.items.pop(evicted)[0]))
        self.order += 1
        self.items[key] = value, self.now + max(ttl, 0), self.order, ttl

    def touch(self, key, ttl):
        self.sweep_for(key)
        if key not in self.items:
            return False
        value, _, _, before = self.items[key]
        self.order += 1
        self.items[key] = value, self.now + max(before if ttl is None else ttl, 0), self.order, before
        return True

    def keys(self):
        self.sweep()
        if self.maxsize is None:
            return list(self.items)
        return sorted(self.items, key=lambda key: self.items[key][2])


class TTLDictMachine(RuleBasedStateMachine):
    pywheel = None
    piece = None

    @initialize(maxsize=st.sampled_from([None, 1, 3, 5]))
    def make(self, maxsize):
        self.clock = self.pywheel.ManualClock()
        self.told = []
        self.d = self.pywheel.TTLDict(
            TTL / 1e9, maxsize=maxsize, clock=self.clock, on_expire=lambda *item: self.told.append(item)
        )
        self.model = Model(maxsize, self.piece)

    @rule(span=SPANS)
    def time_passes(self, span):
        self.clock.jump(max(span, 0) / 1e9)
        self.model.now += max(span, 0)

    @precondition(lambda self: self.model.items)
    @rule(near=st.integers(-1, 1), data=st.data())
    def time_passes_until_a_deadline(self, near, data):
        deadline = data.draw(st.sampled_from([item[1] for item in self.model.items.values()])) + near
        if deadline > self.model.now:
            self.clock.jump((deadline - self.model.now) / 1e9)
            self.model.now = deadline

    @rule(key=KEYS, value=VALUES)
    def set(self, key, value):
        self.d[key] = value
        self.model.set(key, value, TTL)

    @rule(key=KEYS, value=VALUES, span=SPANS)
    def set_for(self, key, value, span):
        self.d.set(key, value, span / 1e9)
        self.model.set(key, value, span)

    @rule(key=KEYS, span=st.none() | SPANS)
    def touch(self, key, span):
        assert self.d.touch(key, None if span is None else span / 1e9) is self.model.touch(key, span)

    @rule(key=KEYS, value=VALUES)
    def setdefault(self, key, value):
        self.model.sweep_for(key)
        if key not in self.model.items:
            self.model.put(key, value, TTL)
        else:
            value = self.model.items[key][0]
        assert self.d.setdefault(key, value) == value

    @rule(key=KEYS)
    def look_up(self, key):
        item = self.model.items.get(key) if key in self.model.live() else None
        missing = object()
        assert self.d.get(key, missing) == (missing if item is None else item[0])
        self.model.sweep(self.piece)
        assert (key in self.d) is (item is not None)
        self.model.sweep(self.piece)
        assert self.d.ttl(key) == (None if item is None else (item[1] - self.model.now) / 1e9)
        self.model.sweep_for(key)

    @rule(key=KEYS)
    def subscript(self, key):
        self.model.sweep(self.piece)
        if key in self.model.live():
            assert self.d[key] == self.model.items[key][0]
        else:
            with pytest.raises(KeyError):
                self.d[key]

    @rule(key=KEYS)
    def pop(self, key):
        self.model.sweep_for(key)
        item = self.model.items.pop(key, (None,))
        assert self.d.pop(key, None) == item[0]

    @rule(key=KEYS)
    def delete(self, key):
        self.model.sweep_for(key)
        if self.model.items.pop(key, None):
            del self.d[key]
        else:
            with pytest.raises(KeyError):
                del self.d[key]

    @precondition(lambda self: self.model.live())
    @rule()
    def popitem(self):
        key = self.model.keys()[-1]
        assert self.d.popitem() == (key, self.model.items.pop(key)[0])

    @rule(keys=st.lists(KEYS))
    def update(self, keys):
        self.d.update(dict.fromkeys(keys, 5))
        for key in dict.fromkeys(keys):
            self.model.set(key, 5, TTL)

    @rule(limit=st.none() | st.integers(0, 4))
    def expire(self, limit):
        assert self.d.expire(limit) == self.model.sweep(limit)

    @rule()
    def clear(self):
        self.d.clear()
        self.model.sweep()
        self.model.items.clear()

    @rule()
    def go_over_everything(self):
        keys = self.model.keys()
        assert list(self.d) == keys
        assert list(self.d.items()) == [(key, self.model.items[key][0]) for key in keys]
        assert len(self.d) == len(keys)

    @invariant()
    def the_inside_is_in_order(self):
        d = self.d
        d._wheel._check()
        assert len(d._data) == len(d._wheel)
        assert sorted(entry[1] for entry in d._data.values()) == sorted(d._wheel)
        deadlines = [d._wheel.deadline(handle) for handle in d._wheel]
        assert d._soonest <= min(deadlines, default=d._soonest)
        assert d._soonest >= 0
        assert d._maxsize >= len(d._data)

    @invariant()
    def the_same_was_told(self):
        assert self.told == self.model.told

    def teardown(self):
        if hasattr(self, "d"):
            self.d.expire()
            self.model.sweep()
            assert self.told == self.model.told
            assert dict(self.d) == {key: item[0] for key, item in self.model.items.items()}


@pytest.mark.hypothesis
@pytest.mark.parametrize("piece", [1, 3, 128])
def test_random_operations_do_what_the_model_does(pywheel, monkeypatch, piece):
    class Machine(TTLDictMachine):
        pass

    monkeypatch.setitem(pywheel.TTLDict.expire.__globals__, "PIECE", piece)
    Machine.pywheel, Machine.piece = pywheel, piece
    run_state_machine_as_test(Machine, settings=settings(stateful_step_count=50))
