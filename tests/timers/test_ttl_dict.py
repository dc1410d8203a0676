"""When a key of a TTLDict is there, and when it is gone."""

import gc
import weakref
from fractions import Fraction

import pytest

from tests.core.items import Item
from tests.timers.loops import Told

NANOSECOND = Fraction(1, 10**9)


def test_a_key_is_there_until_its_deadline_and_gone_at_it(make_dict, clock):
    d = make_dict(10)
    d["a"] = 1
    clock.advance(10 - NANOSECOND)
    assert d["a"] == 1
    assert "a" in d
    assert len(d) == 1
    clock.advance(NANOSECOND)
    assert "a" not in d
    assert len(d) == 0


def raises_key_error(function, *arguments):
    with pytest.raises(KeyError):
        function(*arguments)
    return True


ON_ONE_KEY = {
    "[]": lambda d, key: raises_key_error(d.__getitem__, key),
    "get": lambda d, key: d.get(key) is None,
    "in": lambda d, key: key not in d,
    "ttl": lambda d, key: d.ttl(key) is None,
    "touch": lambda d, key: d.touch(key) is False,
    "pop": lambda d, key: d.pop(key, "gone") == "gone",
    "pop without a default": lambda d, key: raises_key_error(d.pop, key),
    "del": lambda d, key: raises_key_error(d.__delitem__, key),
    "set": lambda d, key: d.set(key, "new") is None and d[key] == "new",
    "setdefault": lambda d, key: d.setdefault(key, "new") == "new",
}
ON_ALL_KEYS = {
    "popitem": lambda d: raises_key_error(d.popitem),
    "len": lambda d: len(d) == 0,
    "bool": lambda d: not d,
    "iter": lambda d: list(d) == [],
    "keys": lambda d: list(d.keys()) == [],
    "values": lambda d: list(d.values()) == [],
    "items": lambda d: list(d.items()) == [],
    "repr": lambda d: repr(d) == "TTLDict({}, ttl=10)",
    "==": lambda d: d == {},
    "expire": lambda d: d.expire() == 1,
}
OPERATIONS = {**ON_ALL_KEYS, **{name: lambda d, call=call: call(d, "a") for name, call in ON_ONE_KEY.items()}}


def test_whatever_operation_comes_first_after_the_deadline_finds_the_key_gone_and_releases_it(make_dict, clock):
    for name, operation in OPERATIONS.items():
        d = make_dict(10)
        d["a"] = value = Item()
        seen = weakref.ref(value)
        del value
        clock.advance(10)
        assert operation(d), name
        assert seen() is None, name


def test_touch_starts_a_keys_time_anew_with_the_ttl_it_was_set_with(make_dict, clock):
    d = make_dict(10)
    d.set("a", 1, 100)
    clock.advance(60)
    assert d.touch("a") is True
    assert d.ttl("a") == 100
    clock.advance(99)
    assert d["a"] == 1
    clock.advance(1)
    assert d.touch("a") is False


def test_reading_does_not_prolong_a_keys_life(make_dict, clock):
    d = make_dict(10)
    d["a"] = 1
    for _ in range(10):
        assert d["a"] == d.get("a") == d.setdefault("a", 2) == 1
        assert "a" in d
        clock.advance(1)
    assert "a" not in d


def test_a_limit_below_0_and_one_that_is_no_int_are_refused(make_dict):
    with pytest.raises(ValueError, match="limit"):
        make_dict().expire(-1)
    with pytest.raises(TypeError, match="limit"):
        make_dict().expire(1.5)


def test_a_clock_that_goes_back_drops_nothing_and_breaks_nothing(pywheel):
    clock = Told(100)
    d = pywheel.TTLDict(50e-9, clock=clock)
    d["a"] = 1
    clock.now = 150
    assert "a" not in d
    clock.now = 20
    assert d.expire() == 0
    d["b"] = 2  # until 70, which the wheel has passed
    d["c"] = 3
    assert d.touch("c", 1)
    clock.now = 160
    assert list(d) == ["c"]


# ---- what is released, and when ------------------------------------------------------------------------------------

REMOVALS = {
    "del": lambda d: d.__delitem__("a"),
    "pop": lambda d: d.pop("a"),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
    "replace": lambda d: d.set("a", 2),
}


@pytest.mark.parametrize("maxsize", [None, 5])
@pytest.mark.parametrize("remove", REMOVALS)
def test_a_removed_key_and_its_value_are_released_at_once(make_dict, remove, maxsize):
    class Key:
        """A key that can be seen to be released."""

        def __hash__(self):
            return hash("a")

        def __eq__(self, other):
            return other == "a"

    d = make_dict(maxsize=maxsize)
    d[key := Key()] = value = Item()
    seen = [weakref.ref(key), weakref.ref(value)]
    del key, value
    REMOVALS[remove](d)
    assert seen[1]() is None
    assert seen[0]() is None or remove == "replace"


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
def test_a_finaliser_finds_the_dict_in_order_and_the_lock_free(make_dict, remove):
    d = make_dict()
    seen = []

    class Nosy:
        def __del__(self):
            d["b"] = 3
            seen.append((d.get("a"), d["b"], len(d), d._lock._is_owned()))

    d["a"] = Nosy()
    remove(d)
    replaced = "a" in d
    assert seen == [(2, 3, 2, False) if replaced else (None, 3, 1, False)]
    assert d["b"] == 3


def test_a_cycle_through_a_dict_is_collected(make_dict):
    d = make_dict()
    d["me"] = d
    seen = weakref.ref(d)
    del d
    gc.collect()
    assert seen() is None


# ---- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maxsize", [None, 1])
def test_an_unhashable_key_is_a_type_error_and_nothing_changes(make_dict, maxsize):
    d = make_dict(maxsize=maxsize)
    d["a"] = 1
    for name, operation in ON_ONE_KEY.items():
        with pytest.raises(TypeError):
            operation(d, [])
        assert d == {"a": 1}, name
        assert len(d._wheel) == 1, name


def test_other_bad_arguments_are_refused_by_name(pywheel):
    for error, name, values in (
        (ValueError, "maxsize", (0, -1)),
        (TypeError, "maxsize", (1.5, "5")),
        (TypeError, "on_expire", (5,)),
        (TypeError, "clock", (5,)),
    ):
        for value in values:
            with pytest.raises(error, match=name):
                pywheel.TTLDict(10, **{name: value})


# ---- maxsize -------------------------------------------------------------------------------------------------------


def test_exactly_maxsize_keys_fit(make_dict):
    d = make_dict(maxsize=3)
    d.update(dict.fromkeys("abc"))
    assert list(d) == ["a", "b", "c"]
    d["d"] = None
    assert list(d) == ["b", "c", "d"]
    d._wheel._check()
    assert len(d._wheel) == 3
