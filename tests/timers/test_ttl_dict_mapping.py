"""A TTLDict is a mapping like others."""

from collections.abc import ItemsView, KeysView, MutableMapping, ValuesView

import pytest


@pytest.fixture(params=[None, 10], ids=["unbounded", "bounded"])
def d(request, make_dict):
    """A dict with three keys."""
    d = make_dict(maxsize=request.param)
    d.update([("a", 1), ("b", 2)], c=3)
    return d


def test_it_is_a_mutable_mapping_and_equals_one_with_the_same_items(d, make_dict):
    assert isinstance(d, MutableMapping)
    views = [(d.keys(), KeysView), (d.values(), ValuesView), (d.items(), ItemsView)]
    assert all(isinstance(view, kind) for view, kind in views)
    other = make_dict(50)
    other.update(c=3, b=2, a=1)
    assert d == {"a": 1, "b": 2, "c": 3} == d
    assert d == other
    assert d != {"a": 1, "b": 2}
    assert d != [("a", 1), ("b", 2), ("c", 3)]
    with pytest.raises(TypeError):
        hash(d)


def test_missing_keys_are_key_errors_that_name_them(d):
    for remove in (d.__getitem__, d.__delitem__, d.pop):
        with pytest.raises(KeyError) as caught:
            remove("x")
        assert caught.value.args == ("x",)
    assert d.pop("x", None) is None
    d["n"] = None  # is a value like others
    assert d.get("n", 5) is d.setdefault("n", 5) is d.pop("n", 5) is None
    assert d.pop("x", default=5) == 5
    assert d.get("x") is None
    assert d.get("x", 5) == 5


def test_update_from_a_dict_whose_keys_expire_meanwhile(pywheel, make_dict, clock):
    class Passing(pywheel.ManualClock):
        def time_ns(self):  # each look at the clock takes a second
            self._now += 10**9
            return self._now

    source, target = pywheel.TTLDict(10, clock=Passing()), make_dict()
    source.update(dict.fromkeys(range(6)))
    target.update(source)
    assert len(target) > 2


def test_iterating_goes_over_what_was_there_at_its_beginning(d, clock):
    for view in (d, d.keys(), d.values(), d.items()):
        steps = iter(view)
        first = next(steps)
        d["new"] = 1
        d.pop("b", None)
        rest = list(steps)
        assert len([first, *rest]) == 3
        del d["new"]
        d["b"] = 2
    items = iter(d.items())
    keys = iter(d)
    clock.advance(10)
    assert sorted(items) == [("a", 1), ("b", 2), ("c", 3)]
    assert sorted(keys) == ["a", "b", "c"]
    assert list(d) == []


def test_views_show_the_present(d, clock):
    keys, values, items = d.keys(), d.values(), d.items()
    d["x"] = 9
    assert len(keys) == len(values) == len(items) == 4
    assert "x" in keys
    assert 9 in values
    assert ("x", 9) in items
    assert ("x", 8) not in items
    clock.advance(10)
    assert len(keys) == len(values) == len(items) == 0
    assert "x" not in keys
    assert 9 not in values
    assert ("x", 9) not in items


def test_the_repr_shows_what_is_there(make_dict, clock):
    d = make_dict(1.5)
    d["a"] = d
    assert repr(d) == "TTLDict({'a': TTLDict({...})}, ttl=1.5)"

    class Sessions(type(d)):
        pass

    assert repr(Sessions(10)) == "Sessions({}, ttl=10)"


def test_a_subclass_may_change_what_happens_at_set(pywheel, clock):
    class Lower(pywheel.TTLDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.lower(), value)

    d = Lower(10, clock=clock)
    d["A"] = 1
    d.update(B=2)
    assert d == {"a": 1, "b": 2}
