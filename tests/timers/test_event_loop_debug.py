"""EventLoop in debug mode: its messages and refusals are those of asyncio's own loop."""

import asyncio
import logging

import pytest

from tests.timers.loops import nothing, turn


@pytest.fixture
def both(pywheel):
    """asyncio's loop and ours, in debug mode."""
    loops = asyncio.SelectorEventLoop(), pywheel.EventLoop()
    for loop in loops:
        loop.set_debug(True)
    yield loops
    for loop in loops:
        loop.close()


def frames(handle):
    """Return where a handle says that it was made."""
    return [(frame.filename, frame.name, frame.line) for frame in handle._source_traceback[-4:]]


@pytest.mark.parametrize(
    "make",
    [
        lambda loop: loop.call_soon(nothing, 1),
        lambda loop: loop.call_later(3, nothing, 1),
        lambda loop: loop.call_at(3, nothing, 1),
        lambda loop: loop.call_at(when=3, callback=nothing),
        lambda loop: loop.call_soon_threadsafe(nothing),
    ],
    ids=["call_soon", "call_later", "call_at", "by name", "call_soon_threadsafe"],
)
def test_a_handle_knows_the_line_that_made_it(both, make):
    theirs, ours = map(make, both)
    assert frames(ours) == frames(theirs)
    assert frames(ours)[-1][1] == "<lambda>"
    if ours._repr is None and not isinstance(ours, asyncio.TimerHandle):
        assert repr(ours).replace("EventLoop", "") == repr(theirs).replace("EventLoop", "")
    ours.cancel(), theirs.cancel()
    assert " cancelled " in repr(ours)
    assert "nothing(" in repr(ours)  # kept for the log, though the callback is released
    assert ours._callback is ours._args is None


def test_no_traceback_is_kept_without_debug_mode(both):
    loop = both[1]
    loop.set_debug(False)
    assert loop.call_later(1, nothing)._source_traceback is None
    loop.set_debug(True)
    assert loop.call_later(1, nothing)._source_traceback
    assert loop.get_debug() is True


@pytest.mark.parametrize("method", ["call_soon", "call_later", "call_at", "call_soon_threadsafe"])
def test_a_callback_that_cannot_be_called_is_refused(both, method):
    messages = []
    for loop in both:
        with pytest.raises(TypeError) as refused:
            getattr(loop, method)(*[] if "soon" in method else [1], 17)
        messages.append(str(refused.value))
    assert messages[0] == messages[1]
    assert both[1]._scheduled == []


@pytest.mark.parametrize("method", ["call_soon", "call_later", "call_at"])
def test_a_call_from_another_thread_is_refused_while_the_loop_runs(both, method):
    async def main():
        with pytest.raises(RuntimeError) as refused:
            await asyncio.to_thread(getattr(loop, method), *[1][method == "call_soon" :], nothing)
        return str(refused.value)

    messages = []
    for loop in both:
        messages.append(loop.run_until_complete(main()))
        loop.run_until_complete(loop.shutdown_default_executor())
    assert messages[0] == messages[1]
    assert "Non-thread-safe operation" in messages[1]


def test_a_callback_that_takes_long_is_logged(both, caplog):
    def slow(name):
        now[0] += 0.25

    now, logged = [100.0], []
    for loop in both:
        caplog.clear()
        loop.time = lambda: now[0]
        loop.call_soon(slow, "soon")
        loop.call_later(0, slow, "later")
        loop.call_soon(nothing)
        with caplog.at_level(logging.WARNING, "asyncio"):
            turn(loop)
            turn(loop)
        logged.append([record.getMessage() for record in caplog.records])
        loop.slow_callback_duration = 0.3
        loop.call_soon(slow, "not that slow")
        turn(loop)
        assert loop._current_handle is None
    assert len(logged[1]) == 2
    assert [message.partition(" at ")[0].partition(" when=")[0] for message in logged[0]] == [
        message.partition(" at ")[0].partition(" when=")[0] for message in logged[1]
    ]
    assert all(message.endswith("took 0.250 seconds") for message in logged[1])


def test_the_exception_handler_learns_where_the_callback_was_scheduled(both):
    def broken():
        raise ZeroDivisionError

    told = []
    for loop in both:
        errors = []
        loop.set_exception_handler(lambda loop, context, errors=errors: errors.append(context))
        handle = loop.call_later(0, broken)
        turn(loop)
        assert errors[0]["handle"] is handle
        told.append(
            (sorted(errors[0]), errors[0]["message"], [frame.name for frame in errors[0]["source_traceback"][-2:]])
        )
    assert told[0] == told[1]


def test_an_exception_in_a_task_leaves_no_cycle_behind(both):
    """The task is released in the turn in which its exception was raised, so that this is told in time."""

    async def broken():
        raise ZeroDivisionError

    for loop in both:
        for debug in (True, False):
            told = []
            loop.set_debug(debug)
            loop.set_exception_handler(lambda loop, context, told=told: told.append(context["exception"]))
            loop.create_task(broken())
            turn(loop)
            assert len(told) == 1
