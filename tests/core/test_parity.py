"""The two implementations look the same from outside."""

import inspect

import pytest

from tests.implementations import PURE_ONLY, load

pytestmark = pytest.mark.skipif(PURE_ONLY, reason="PYWHEEL_PURE=1: there is nothing to compare with")

CLASSES = ["TimingWheel", "KeyWheel"]
CHANGES = ["schedule", "reschedule", "cancel", "advance", "reserve", "clear"]
CALLABLE = [*CHANGES, "next_deadline", "deadline", "get", "_check"]
BULK = ["schedule_many", "reschedule_many", "cancel_many", "advance_many"]
BULK_OF_ITEMS = ["schedule_many", "cancel_many"]
METHODS = [(name, method) for name in CLASSES for method in CALLABLE] + [("KeyWheel", method) for method in BULK]
METHODS += [("TimingWheel", method) for method in BULK_OF_ITEMS]


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


def test_these_are_the_public_names():
    timing = {"now", "max_pending", *(method for method in CALLABLE if method != "_check")}
    for name in ("native", "pure"):
        assert public(load(name).TimingWheel) == timing | set(BULK_OF_ITEMS)
        assert public(load(name).KeyWheel) == timing | set(BULK)


@pytest.mark.parametrize(("cls", "method"), METHODS)
def test_both_have_the_same_signature(cls, method):
    native, pure = (inspect.signature(getattr(getattr(load(name), cls)(), method)) for name in ("native", "pure"))
    assert [(p.name, p.kind, p.default) for p in native.parameters.values()] == [
        (p.name, p.kind, p.default) for p in pure.parameters.values()
    ]


@pytest.mark.parametrize("cls", CLASSES)
def test_both_are_made_with_the_same_arguments(cls):
    for name in ("native", "pure"):
        made = getattr(load(name), cls)
        signature = inspect.signature(made if name == "native" else made(0).__init__)
        start, most = signature.parameters.values()
        assert (start.name, start.kind, start.default) == ("start", start.POSITIONAL_OR_KEYWORD, 0)
        assert (most.name, most.kind, most.default) == ("max_pending", most.KEYWORD_ONLY, None)


@pytest.mark.parametrize(("cls", "method"), METHODS)
def test_every_method_of_both_is_documented(cls, method):
    for name in ("native", "pure"):
        text = inspect.getdoc(getattr(getattr(load(name), cls), method))
        assert text
        assert not text.startswith(method), "the signature belongs into __text_signature__"
        if method != "_check":
            assert "O(" in text or "As `" in text, "the complexity is missing"
