"""The calls of a TTLDict's on_expire: for which keys, and when."""

import logging

import pytest


def test_what_is_deleted_or_replaced_is_not_told(make_dict, clock):
    told = []
    d = make_dict(on_expire=lambda *item: told.append(item))
    d.update(dict.fromkeys("abcde", 0))
    d["a"] = 1
    del d["b"]
    d.pop("c")
    d.popitem()
    d.clear()
    clock.advance(100)
    d.expire()
    assert told == []


def test_what_had_to_make_room_is_told_once_the_new_key_is_there(make_dict, clock):
    told = []
    d = make_dict(maxsize=2, on_expire=lambda *item: told.append((item, list(d), d._lock._is_owned())))
    d["a"] = 1
    d["b"] = 2
    d["c"] = 3
    assert told == [(("a", 1), ["b", "c"], False)]
    assert d.setdefault("d", 4) == 4
    assert told[1:] == [(("b", 2), ["c", "d"], False)]
    clock.advance(10)
    d.expire()
    assert [item for item, *_ in told[2:]] == [("c", 3), ("d", 4)]


def test_on_expire_finds_the_dict_without_the_key_and_the_lock_free(make_dict, clock):
    seen = []
    d = make_dict(on_expire=lambda key, value: seen.append((key in d, len(d), d._lock._is_owned())))
    d.update(a=1, b=2)
    clock.advance(10)
    assert d.get("a") is None
    assert seen == [(False, 0, False)] * 2


def test_on_expire_may_set_the_key_again(make_dict, clock):
    counts = []

    def again(key, value):
        counts.append(value)
        d[key] = value + 1

    d = make_dict(on_expire=again)
    d["a"] = 0
    for _ in range(3):
        clock.advance(10)
        d.expire()
    assert counts == [0, 1, 2]
    assert d == {"a": 3}


def test_a_key_that_on_expire_sets_again_for_no_time_does_not_spin(make_dict, clock):
    counts = []

    def again(key, value):
        counts.append(value)
        d.set(key, value + 1, 0)

    d = make_dict(on_expire=again)
    d["a"] = 0
    clock.advance(10)
    assert d.expire() == 1
    assert counts == [0]
    assert d.get("a") is None
    assert counts == [0, 1]


def test_an_error_in_on_expire_is_logged_and_the_others_are_told(make_dict, clock, caplog):
    told = []

    def fragile(key, value):
        told.append(key)
        if key == "b":
            raise RuntimeError("the store is closed")

    d = make_dict(on_expire=fragile)
    d.update(a=1, b=2, c=3)
    clock.advance(10)
    with caplog.at_level(logging.ERROR, logger="pywheel"):
        assert d.get("a", "gone") == "gone"
    assert told == ["a", "b", "c"]
    assert len(d) == 0
    (record,) = caplog.records
    assert record.name == "pywheel"
    assert "'b'" in record.getMessage()
    assert str(record.exc_info[1]) == "the store is closed"


USES = {
    "looks": lambda d: "other" in d,
    "sets": lambda d: d.set("seen", 1),
    "counts": len,
}


@pytest.mark.parametrize(("use", "maxsize"), [("looks", None), ("sets", 5_000), ("counts", None)])
def test_on_expire_that_uses_the_dict_is_told_of_every_key_in_order_without_a_deep_stack(
    make_dict, clock, use, maxsize
):
    told = []

    def on_expire(key, value):
        told.append(key)
        USES[use](d)

    d = make_dict(on_expire=on_expire, maxsize=maxsize)
    d.update(dict.fromkeys(range(5_000)))
    clock.advance(10)
    if use != "counts":
        assert d.get("other") is None
        assert len(told) < 1_000
    d.expire()
    assert told == list(range(5_000))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_goes_through_on_expire_loses_a_hundred_or_so_and_the_rest_is_told_later(make_dict, clock, error):
    told = []

    def interrupt(key, value):
        told.append(key)
        if key == 0:
            raise error

    d = make_dict(on_expire=interrupt)
    d.update(dict.fromkeys(range(1000)))
    clock.advance(10)
    with pytest.raises(error):
        d.expire()
    d.expire()
    assert told == [0, *range(1001 - len(told), 1000)]
    assert len(told) > 800
