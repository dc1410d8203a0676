"""Libraries that people build on, unchanged on EventLoop: servers and clients on loopback, and their timeouts."""

import asyncio

import pytest

from tests.jobs.waiting import LIMIT

SHORT = 0.05  # a timeout that is to end


async def test_aiohttp_serves_and_its_client_waits_no_longer_than_it_is_told(ours):
    aiohttp = pytest.importorskip("aiohttp")
    web = pytest.importorskip("aiohttp.web")

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(5):
            await response.write(b"%d\n" % number)
            await asyncio.sleep(0.002)
        if request.path == "/late":
            await released.wait()
        return response

    async def body(session, path, **timeouts):
        async with session.get(path, timeout=aiohttp.ClientTimeout(**timeouts)) as response:
            return await response.text()

    released = asyncio.Event()
    application = web.Application()
    application.router.add_get("/{name}", answer)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
        for limit in ("total", "sock_read"):
            assert await body(session, "/now", **{limit: LIMIT}) == "0\n1\n2\n3\n4\n"
            with pytest.raises(asyncio.TimeoutError):
                await body(session, "/late", **{limit: SHORT})
        released.set()
        assert await body(session, "/late", total=LIMIT) == "0\n1\n2\n3\n4\n"
    await runner.cleanup()


async def test_anyio_cancels_scopes_in_time_and_only_those(ours):
    anyio = pytest.importorskip("anyio")

    with anyio.move_on_after(SHORT) as scope:
        await anyio.sleep(LIMIT)
    assert scope.cancelled_caught
    with anyio.fail_after(LIMIT):
        await anyio.sleep(0.001)
    with pytest.raises(TimeoutError), anyio.fail_after(SHORT):
        await anyio.Event().wait()
    with anyio.move_on_after(LIMIT) as scope:
        scope.deadline = anyio.current_time() + SHORT
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    woken = []
    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(sleeper, anyio, woken, number)
        await anyio.sleep(SHORT)
        group.cancel_scope.cancel()
    assert woken == list(range(0, 100, 2))
    assert await anyio.to_thread.run_sync(lambda: 7) == 7


async def sleeper(anyio, woken, number):
    await anyio.sleep(LIMIT if number % 2 else 0)
    woken.append(number)
