"""What a full TTLDict drops."""


def test_exactly_maxsize_keys_fit(make_dict):
    d = make_dict(maxsize=3)
    d.update(dict.fromkeys("abc"))
    assert list(d) == ["a", "b", "c"]
    d["d"] = None
    assert list(d) == ["b", "c", "d"]
    d._wheel._check()
    assert len(d._wheel) == 3


def test_the_key_set_or_touched_longest_ago_goes(make_dict):
    d = make_dict(maxsize=3)
    d.update(dict.fromkeys("abc", 0))
    d["a"] = 1
    assert d.touch("b")
    d["d"] = 2
    assert list(d) == ["a", "b", "d"]


def test_reading_does_not_keep_a_key(make_dict):
    d = make_dict(maxsize=2)
    d.update(a=1, b=2)
    assert d["a"] == d.get("a") == d.setdefault("a") == 1
    d["c"] = 3
    assert "a" not in d


def test_age_and_not_the_deadline_decides(make_dict):
    d = make_dict(maxsize=2)
    d.set("a", 1, 1000)
    d.set("b", 2, 1)
    d["c"] = 3
    assert list(d) == ["b", "c"]


def test_replacing_or_touching_a_key_of_a_full_dict_drops_nothing(make_dict):
    d = make_dict(maxsize=2)
    d.update(a=1, b=2)
    d["a"] = 3
    d.touch("b")
    d.set("b", 4, 50)
    assert d == {"a": 3, "b": 4}


def test_what_is_due_makes_room_first(make_dict, clock):
    d = make_dict(maxsize=2)
    d["a"] = 1
    d.set("b", 2, 5)
    clock.advance(5)
    d["c"] = 3
    assert d == {"a": 1, "c": 3}


def test_no_key_goes_for_lack_of_room_while_others_are_overdue(make_dict, clock):
    d = make_dict(ttl=100, maxsize=1000)
    d["first"] = 1
    for key in range(999):
        d.set(key, None, 10)
    clock.advance(10)
    for key in range(2000, 2999):
        d[key] = None
    assert len(d) == 1000
    assert "first" in d


def test_a_dropped_key_that_is_set_again_has_its_new_time_only(make_dict, clock):
    d = make_dict(maxsize=1)
    d["a"] = 1
    clock.advance(6)
    d["b"] = 2
    d["a"] = 3
    clock.advance(6)
    assert d == {"a": 3}


def test_a_maxsize_of_one_keeps_the_newest(make_dict):
    d = make_dict(maxsize=1)
    for number in range(100):
        d[number] = number
        assert d == {number: number}
    assert len(d._wheel) == 1


def test_a_cleared_dict_is_still_bounded(make_dict):
    d = make_dict(maxsize=2)
    d.update(dict.fromkeys("abc"))
    d.clear()
    d.update(dict.fromkeys("abc"))
    assert list(d) == ["b", "c"]


def test_dropping_the_oldest_does_not_search_for_it(make_dict):
    """A plain dict would look past all that was removed before: 1e10 steps here, for ever."""
    d = make_dict(maxsize=100_000)
    for number in range(300_000):
        d[number] = None
    assert len(d) == 100_000
