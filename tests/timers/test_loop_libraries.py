"""Libraries that people build on, unchanged on EventLoop: servers and clients on loopback, and their timeouts."""

import asyncio

import pytest

from tests.jobs.waiting import LIMIT

SHORT = 0.05  # a timeout that is to end


class AiohttpSite:
    """A server with an answer at once, one too late, and a body in pieces."""

    async def __aenter__(self):
        from aiohttp import web

        self.released = asyncio.Event()
        application = web.Application()
        application.add_routes(
            [
                web.get("/now", self.now),
                web.get("/late", self.late),
                web.get("/pieces", self.pieces),
            ]
        )
        self.runner = web.AppRunner(application, shutdown_timeout=1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        host, port = self.runner.addresses[0]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_):
        self.released.set()
        await self.runner.cleanup()

    async def now(self, _):
        from aiohttp import web

        return web.json_response({"answer": 42})

    async def late(self, _):
        from aiohttp import web

        await self.released.wait()
        return web.Response(text="at last")

    async def pieces(self, request):
        from aiohttp import web

        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(5):
            await response.write(b"%d\n" % number)
            await asyncio.sleep(0.002)
        return response


def test_aiohttp_serves_and_its_client_waits_no_longer_than_it_is_told(run_ours):
    aiohttp = pytest.importorskip("aiohttp")

    async def main():
        async with AiohttpSite() as site, aiohttp.ClientSession(site.url) as session:
            for _ in range(20):
                async with session.get("/now", timeout=aiohttp.ClientTimeout(total=LIMIT)) as response:
                    assert await response.json() == {"answer": 42}
            async with session.get("/pieces", timeout=aiohttp.ClientTimeout(sock_read=LIMIT)) as response:
                assert await response.text() == "0\n1\n2\n3\n4\n"
            for timeout in (aiohttp.ClientTimeout(total=SHORT), aiohttp.ClientTimeout(sock_read=SHORT)):
                with pytest.raises(asyncio.TimeoutError):
                    await session.get("/late", timeout=timeout)
            site.released.set()
            async with session.get("/late", timeout=aiohttp.ClientTimeout(total=LIMIT)) as response:
                assert await response.text() == "at last"

    run_ours(main())


def test_anyio_cancels_scopes_in_time_and_only_those(run_ours):
    anyio = pytest.importorskip("anyio")

    async def main():
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
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, answer)
            async with await anyio.connect_tcp(*listener.extra(anyio.abc.SocketAttribute.local_address)) as stream:
                with anyio.fail_after(LIMIT):
                    await stream.send(b"abc")
                    assert await stream.receive() == b"cba"
                with anyio.move_on_after(SHORT) as scope:
                    await stream.receive()
                assert scope.cancelled_caught
            group.cancel_scope.cancel()

    async def answer(stream):
        async with stream:
            async for data in stream:
                await stream.send(data[::-1])

    run_ours(main())


async def sleeper(anyio, woken, number):
    await anyio.sleep(LIMIT if number % 2 else 0)
    woken.append(number)
