"""timeout and timeout_at: another time for a block, and what is refused, as by asyncio."""

import asyncio
from contextlib import suppress

import pytest

FAR = 1_000  # seconds, which nobody waits for


async def for_ever():
    await asyncio.get_running_loop().create_future()


# ---- reschedule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [FAR, None, 0])
def test_reschedule_moves_the_time(pywheel, each_loop, run_each, first):
    async def main():
        later = each_loop.time() + FAR
        async with pywheel.timeout(first) as timeout:
            for when in (later, None, later + 1, None, later):
                timeout.reschedule(when)
                assert timeout.when() == when
                await asyncio.sleep(0)
            with suppress(asyncio.CancelledError):
                timeout.reschedule(each_loop.time() - 1)
                await asyncio.sleep(0)
            return timeout.expired()

    assert run_each(main())


@pytest.mark.usefixtures("as_asyncio_does_now")
def test_reschedule_needs_an_open_block_that_has_time(pywheel, run_each):
    async def main():
        timeout = pywheel.timeout(FAR)
        with pytest.raises(RuntimeError, match=r"^Timeout has not been entered$"):
            timeout.reschedule(1)
        async with timeout:
            pass
        with pytest.raises(RuntimeError, match=r"^Cannot change state of finished Timeout$"):
            timeout.reschedule(1)
        with suppress(TimeoutError):
            async with pywheel.timeout(0) as timeout:
                try:
                    await for_ever()
                finally:
                    with pytest.raises(RuntimeError, match=r"^Cannot change state of expiring Timeout$"):
                        timeout.reschedule(1)
        with pytest.raises(RuntimeError, match=r"^Cannot change state of expired Timeout$"):
            timeout.reschedule(1)

    run_each(main())


# ---- misuse ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("as_asyncio_does_now")
def test_a_timeout_is_entered_once(pywheel, run_each):
    async def main():
        timeout = pywheel.timeout(FAR)
        async with timeout:
            with pytest.raises(RuntimeError, match=r"^Timeout has already been entered$"):
                await timeout.__aenter__()
        with pytest.raises(RuntimeError, match=r"^Timeout has already been entered$"):
            await timeout.__aenter__()

    run_each(main())


@pytest.mark.usefixtures("as_asyncio_does_now")
def test_without_a_loop_it_is_an_error_that_says_so(pywheel):
    with pytest.raises(RuntimeError, match=r"^no running event loop$"):
        pywheel.timeout(1)
    timeout = pywheel.timeout_at(1)
    with pytest.raises(RuntimeError, match=r"^no running event loop$"):
        next(timeout.__aenter__().__await__())
    assert repr(timeout) == "<Timeout [created]>"


def test_without_a_task_it_is_an_error_that_says_so(pywheel, each_loop):
    errors = []

    def enter():
        try:
            next(pywheel.timeout(1).__aenter__().__await__())
        except RuntimeError as error:
            errors.append(str(error))

    each_loop.call_soon(enter)
    each_loop.call_soon(each_loop.stop)
    each_loop.run_forever()
    assert errors == ["Timeout should be used inside a task"]


def test_leaving_without_having_entered_is_an_error(pywheel, run_each):
    async def main():
        with pytest.raises(AssertionError):
            await pywheel.timeout(1).__aexit__(None, None, None)

    run_each(main())


@pytest.mark.parametrize("name", ["timeout", "timeout_at"])
@pytest.mark.parametrize("argument", ["x", [], 1j, 10**400], ids=["str", "list", "complex", "huge"])
def test_what_is_no_time_is_refused_as_by_asyncio(pywheel, run_each, name, argument):
    async def main(module):
        try:
            async with getattr(module, name)(argument):
                pass
        except (TypeError, OverflowError) as error:
            return type(error)
        return None

    assert run_each(main(pywheel)) is run_each(main(asyncio))


@pytest.mark.parametrize("name", ["timeout", "timeout_at"])
def test_the_argument_has_asyncios_name_and_is_needed(pywheel, run_each, name):
    async def main():
        make = getattr(pywheel, name)
        assert make(**{"delay" if name == "timeout" else "when": None}).when() is None
        for arguments in ((), (1, 2)):
            with pytest.raises(TypeError):
                make(*arguments)

    run_each(main())


def test_nothing_happens_before_it_is_awaited(pywheel, run_each):
    async def main():
        timeout = pywheel.timeout(FAR)
        entering = timeout.__aenter__()
        assert repr(timeout) == "<Timeout [created]>"
        assert await entering is timeout
        assert repr(timeout).startswith("<Timeout [active] when=")
        assert await timeout.__aexit__(None, None, None) is None

    run_each(main())


def test_what_enters_is_made_by_aenter_alone(pywheel, run_each):
    async def main():
        timeout = pywheel.timeout(FAR)
        entering = timeout.__aenter__()
        with pytest.raises(TypeError, match=r"^cannot create "):
            next(type(entering)())
        await entering
        await timeout.__aexit__(None, None, None)

    run_each(main())


def test_a_long_chain_of_timeouts_is_released(pywheel):
    """The deadline may be any object, another one of them, too."""
    timeout = None
    for _ in range(1_000_000):
        timeout = pywheel.timeout_at(timeout)
    del timeout
