"""Ids of several stores: their store, their order, and their shard."""

import pytest

from pywheel.stores.partitions import Ids

MANY = [*range(1, 300), 2**40, 2**40 + 1, 2**48 - 1]


@pytest.fixture(params=[2, 3, 4, 32])
def ids(request):
    return Ids(request.param)


def test_an_id_says_its_store_and_its_id_there(ids):
    seen = set()
    for store in range(ids.stores):
        for inner in MANY:
            outer = ids.outer(store, inner)
            assert (ids.store(outer), ids.inner(outer)) == (store, inner)
            seen.add(outer)
    assert len(seen) == ids.stores * len(MANY)
    assert max(seen) < 2**53


def test_ids_of_one_store_keep_their_order(ids):
    for store in range(ids.stores):
        assert sorted(MANY) == [ids.inner(id) for id in sorted(ids.outer(store, inner) for inner in MANY)]


def test_what_lies_behind_an_id_lies_behind_it_in_each_store(ids):
    for id in range(0, 32 * ids.stores * 3, 37):
        for store in range(ids.stores):
            after = ids.after(store, id)
            assert [inner > after for inner in MANY] == [ids.outer(store, inner) > id for inner in MANY]


def test_keys_and_nonces_are_spread_and_always_decided_by_the_same_store():
    ids = Ids(4)
    assert {ids.of_key("t", str(number)) for number in range(99)} == set(range(4))
    assert {ids.of_nonce(str(number)) for number in range(99)} == set(range(4))
    # Not to be changed: stores that are in use rely on it.
    assert [ids.of_key("topic", "key"), ids.of_key("t\N{SNOWMAN}", ""), ids.of_nonce("n")] == [0, 1, 2]
