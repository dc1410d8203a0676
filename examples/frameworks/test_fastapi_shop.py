"""A test of fastapi_shop.py: half an hour passes in milliseconds. The engine's connections belong to its loop."""

import asyncio

from fastapi_shop import Base, app, close_order, engine, queue
from httpx import ASGITransport, AsyncClient

from pywheel.testing import QueueTester


async def an_order_that_nobody_pays():
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.drop_all)
        await connection.run_sync(Base.metadata.create_all)
    with QueueTester(queue) as jobs:
        async with AsyncClient(transport=ASGITransport(app), base_url="http://shop") as client:
            assert (await client.post("/orders/7")).status_code == 201
            jobs.assert_put(close_order, 7, delay="30m")
            await jobs.aadvance("30m")
            assert (await client.get("/orders/7")).json() == {"state": "closed"}
    await engine.dispose()  # while its loop still runs


def test_an_order_that_nobody_pays_closes_after_half_an_hour():
    asyncio.run(an_order_that_nobody_pays())
