"""EventLoop: the promises of its timers, on a clock that stands still until it is moved."""

import asyncio
import contextlib
import gc
import math
import sys
import weakref
from contextvars import Context, ContextVar, copy_context
from decimal import Decimal
from fractions import Fraction

import pytest

from tests.core.items import Item
from tests.timers.loops import nothing, turn


def go(loop, clock, seconds):
    clock.advance(seconds)
    turn(loop)


# ---- when they run ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [1, 0.1, 1e-6, 1e-9, 255 / 2**20, 256 / 2**20, 65_536 / 2**20, 100_000, True])
def test_a_callback_runs_at_its_time_and_not_a_nanosecond_before(loop, clock, delay):
    calls = []
    handle = loop.call_later(delay, calls.append, "called")
    assert handle.when() == delay
    nanoseconds = math.ceil(delay * 1e9)
    clock.advance((nanoseconds - 1) / 1e9)
    turn(loop)
    assert calls == ([] if loop.time() < handle.when() else ["called"])
    clock.advance(1e-9)
    turn(loop)
    assert loop.time() >= handle.when()
    assert calls == ["called"]
    go(loop, clock, 1e6)
    assert calls == ["called"]


@pytest.mark.parametrize("when", [0, -1, -1e300, -math.inf, 1e-310])
def test_a_time_that_has_passed_is_due_at_the_next_turn_and_not_in_this_one(loop, clock, when):
    clock.advance(1)
    calls = []
    loop.call_at(when, calls.append, 1)
    loop.call_later(min(when, 0), calls.append, 2)
    assert calls == []
    turn(loop)
    assert calls == [1, 2]


def test_a_far_time_disturbs_no_near_one_and_an_infinite_one_never_comes_as_in_asyncio(loop, clock):
    calls, whens = [], [2**31, 2**42, 2**42 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 2**100, 1e300, math.inf]
    handles = [loop.call_at(when, calls.append, when) for when in whens]
    handles.append(loop.call_later(math.inf, calls.append, "later"))
    loop.call_at(1, calls.append, "near")
    go(loop, clock, 1)
    assert calls == ["near"]
    assert [handle.when() for handle in handles] == [*whens, math.inf]
    assert loop._scheduled == handles


@pytest.mark.parametrize("when", [3, Fraction(10, 3), Decimal("3.1"), math.nextafter(3, 4), Fraction(1, 3)])
def test_any_real_number_is_a_time_and_is_kept_as_it_is(loop, clock, when):
    calls = []
    handle = loop.call_at(when, lambda: calls.append(loop.time()))
    assert handle.when() is when
    for _ in range(20):
        go(loop, clock, 0.2)
    assert len(calls) == 1
    assert calls[0] >= when


def test_a_time_that_a_float_cannot_hold_is_not_early(pywheel, clock):
    """The float nearest to the third is less."""
    third = Fraction(float(Fraction(1, 3))) + Fraction(1, 10**30)

    class Loop(pywheel.EventLoop):
        def time(self):
            return now

    now = float(third)
    assert now < third
    loop, calls = Loop(), []
    loop.call_at(third, calls.append, 1)
    turn(loop)
    assert calls == []
    now = math.nextafter(now, 1)
    turn(loop)
    assert calls == [1]
    loop.close()


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["call_at", "call_later"])
def test_what_is_no_time_is_refused_and_nothing_is_scheduled(loop, method):
    for value, error in (
        (math.nan, ValueError),
        (Decimal("nan"), (ValueError, TypeError)),
        *((value, TypeError) for value in (None, "1", b"1", [], 1j, object())),
        (10**400, OverflowError),
    ):
        with pytest.raises(error):
            getattr(loop, method)(value, nothing)
        assert loop._scheduled == [], value


@pytest.mark.parametrize("method", ["call_at", "call_later", "call_soon"])
def test_arguments_may_be_named_as_in_asyncio_and_wrong_ones_are_refused(loop, method):
    stock = asyncio.SelectorEventLoop()
    time = {"call_at": ["when"], "call_later": ["delay"], "call_soon": []}[method]
    wrong = [((), {}), ((), dict.fromkeys(time, 1)), ((), {"callback": nothing, "to_do": 1})]
    wrong.append(((1, nothing), {"to_do": 1}))
    for arguments, keywords in wrong:
        for each in (stock, loop):
            with pytest.raises(TypeError):
                getattr(each, method)(*arguments, **keywords)
    context = copy_context()
    handle = getattr(loop, method)(callback=nothing, context=context, **dict.fromkeys(time, 1))
    assert (handle._callback, handle._args, handle._context) == (nothing, (), context)
    assert loop._scheduled == ([handle] if time else [])
    stock.close()


def test_a_limit_below_one_is_refused(pywheel):
    for limit in (0, -1):
        with pytest.raises(ValueError, match="limit"):
            pywheel.EventLoop(limit=limit)


def test_a_limit_beyond_64_bits_is_one_that_no_turn_reaches(pywheel):
    with contextlib.closing(pywheel.EventLoop(limit=2**64)) as loop:
        calls = []
        for number in range(2_000):
            loop.call_later(0, calls.append, number)
        loop.run_until_complete(asyncio.sleep(0))
    assert calls == list(range(2_000))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limit": None}, "limit must be an int, not NoneType"),
        ({"limit": 1.5}, "limit must be an int, not float"),
        ({"clock": 5}, "clock must have a method time_ns"),
    ],
    ids=str,
)
def test_what_is_no_limit_and_no_clock_is_refused_before_the_selector_is_touched(pywheel, options, says):
    with pytest.raises(TypeError, match=says):
        pywheel.EventLoop(object(), **options)
    gc.collect()  # what is left of them has nothing to complain about


# ---- handles ---------------------------------------------------------------------------------------------------------


def test_a_handle_is_a_timer_handle_of_asyncio_in_all_it_shows(loop):
    stock = asyncio.SelectorEventLoop()
    ours, theirs = (each.call_at(7.25, nothing, 1, "two") for each in (loop, stock))
    assert isinstance(ours, asyncio.TimerHandle)
    assert repr(ours) == repr(theirs)
    assert (ours.when(), ours.cancelled(), hash(ours)) == (theirs.when(), theirs.cancelled(), hash(theirs))
    assert ours == theirs
    assert loop.call_at(7.5, nothing) > ours >= theirs >= ours
    assert ours < loop.call_at(8, nothing)
    assert not ours < theirs
    for name in ("_callback", "_args", "_cancelled", "_repr", "_source_traceback", "_scheduled", "_when"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours._loop is loop
    assert weakref.ref(ours)() is ours
    ours.cancel(), theirs.cancel()
    assert repr(ours) == repr(theirs)
    assert ours.cancelled()
    assert ours._callback is ours._args is None
    assert ours._loop is loop
    assert isinstance(ours._context, Context)
    stock.close()


def test_cancel_releases_callback_and_arguments_and_the_loop_the_handle(loop, clock):
    def callback():
        pass

    argument = Item()
    handle, ran = loop.call_later(1, callback, argument), loop.call_later(1, nothing)
    released = [weakref.ref(each) for each in (callback, argument, handle, ran)]
    del callback, argument, ran
    assert all(reference() is not None for reference in released)
    handle.cancel()
    assert [reference() for reference in released[:2]] == [None, None]
    assert not handle._scheduled
    assert len(loop._scheduled) == 1
    del handle
    assert released[2]() is None
    go(loop, clock, 1)
    assert released[3]() is None


def test_cancel_is_idempotent_and_after_the_fact_without_effect(loop, clock):
    calls = []
    first, second = loop.call_later(1, calls.append, 1), loop.call_later(1, calls.append, 2)
    for _ in range(3):
        assert first.cancel() is None
    loop.call_later(1, calls.append, 3)  # it may stand where the first one stood
    first.cancel()
    go(loop, clock, 1)
    assert calls == [2, 3]
    assert not second.cancelled()
    second.cancel()
    loop.call_later(1, calls.append, 4)
    second.cancel()
    go(loop, clock, 1)
    assert calls == [2, 3, 4]


def test_a_handle_that_is_finalised_while_the_loop_is_changed_may_change_it_too(loop, clock):
    class Meddler:
        def __del__(self):
            calls.append(len(loop._scheduled))
            loop.call_later(1, calls.append, "meddled")
            victim.cancel()

    calls = []
    victim = loop.call_later(1, calls.append, "victim")
    handle = loop.call_later(1, nothing, Meddler())
    handle.cancel()
    assert calls == [1]
    go(loop, clock, 1)
    assert calls == [1, "meddled"]


def test_the_pending_handles_can_be_read_by_time(loop, clock):
    handles = [loop.call_at(when, nothing) for when in (5, 3, 9, 1, math.inf)]
    assert loop._scheduled == sorted(handles)
    handles[1].cancel()
    assert [handle.when() for handle in loop._scheduled] == [1, 5, 9, math.inf]
    go(loop, clock, 5)
    assert [handle.when() for handle in loop._scheduled] == [9, math.inf]
    with pytest.raises(AttributeError, match="call_at"):
        loop._scheduled = handles


# ---- context ---------------------------------------------------------------------------------------------------------

variable = ContextVar("variable", default="nowhere")


def test_the_context_of_a_pending_timer_has_what_was_set_when_it_was_scheduled_and_changes_do_not_mix(loop, clock):
    def schedule():
        variable.set("inside")
        handles.extend(loop.call_later(1, lambda: seen.append(variable.get())) for _ in range(3))
        variable.set("later")

    handles, seen = [], []
    copy_context().run(schedule)
    contexts = [handle._context for handle in handles[:2]]
    assert [dict(context)[variable] for context in contexts] == ["inside", "inside"]
    assert [handle._context for handle in handles[:2]] == contexts
    contexts[0].run(variable.set, "changed")
    go(loop, clock, 1)
    assert seen == ["changed", "inside", "inside"]
    assert variable.get() == "nowhere"


@pytest.mark.parametrize("method", ["call_at", "call_later", "call_soon"])
def test_a_callback_runs_in_the_context_that_is_given(loop, clock, method):
    context = copy_context()
    context.run(variable.set, "given")
    handle = getattr(loop, method)(
        *[1][method == "call_soon" :], lambda: variable.set(variable.get() + "+"), context=context
    )
    assert handle._context is context
    go(loop, clock, 1)
    assert context[variable] == "given+"


def complaints_of_a_context_in_use(loop, caplog):
    """What the exception handler got, and what was logged: from 3.12 on the handler itself runs in the context."""
    context, errors = copy_context(), []
    loop.set_exception_handler(lambda loop, context: errors.append(context["exception"]))
    loop.call_later(0, nothing, context=context)
    context.run(turn, loop)
    complaints = [str(error) for error in errors], [(record.message, record.exc_info[0]) for record in caplog.records]
    caplog.clear()
    return complaints


def test_a_context_that_is_in_use_is_an_error_as_on_the_stock_loop(loop, caplog):
    stock = asyncio.SelectorEventLoop()
    expected = complaints_of_a_context_in_use(stock, caplog)
    stock.close()
    found = complaints_of_a_context_in_use(loop, caplog)
    assert [kind for _, kind in found[1]] == [kind for _, kind in expected[1]]
    assert len(found[0]) == len(expected[0])
    assert found[0] or found[1]
    assert all("already entered" in message for message in found[0])


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_close_releases_what_is_pending(loop):
    things = [Item() for _ in range(5)]
    gone = [weakref.ref(thing) for thing in things]
    handles = [loop.call_later(number, nothing, thing) for number, thing in enumerate(things)]
    kept = handles[0]
    del handles, things
    loop.close()
    assert [reference() for reference in gone[1:]] == [None] * 4
    assert loop._scheduled == []
    kept.cancel()
    assert kept.cancelled()
    assert gone[0]() is None
    loop.close()


def test_many_handles_leave_no_reference_behind(loop, clock):
    marker = Item()
    before = sys.getrefcount(marker)
    for _ in range(200):
        loop.call_later(1, nothing, marker).cancel()
        loop.call_later(0, nothing, marker)
        loop.call_soon(nothing, marker)
        loop.call_at(loop.time(), nothing, context=copy_context())
        with pytest.raises(ValueError, match="NaN"):
            loop.call_later(math.nan, nothing, marker)
        turn(loop)
    assert sys.getrefcount(marker) == before
