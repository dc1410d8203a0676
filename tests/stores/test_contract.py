"""Every store keeps the contract, a durable one also when it is reopened after every operation."""

import pytest

from pywheel.stores import open
from pywheel.testing import FaultyStore, StoreSuite


class TestMemory(StoreSuite):
    def make_store(self, clock):
        return open("memory:", clock=clock)


class TestFaultyStoreWithoutFaults(StoreSuite):
    def make_store(self, clock):
        return FaultyStore(open("memory:", clock=clock))


def test_a_suite_that_does_not_say_how_to_make_a_store_is_an_error_at_once():
    with pytest.raises(TypeError, match="TestNothing must define make_store"):
        type("TestNothing", (StoreSuite,), {})
