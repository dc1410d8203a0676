"""A shop on FastAPI, or on Starlette alone: unpaid orders are closed after a while.

uvicorn fastapi_shop:app
gunicorn --preload --workers 2 --worker-class uvicorn_worker.UvicornWorker fastapi_shop:app
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException

from pywheel import AsyncJobQueue, AsyncWorker

# The function is called at the first put: in each worker process, and not before the server forks.
queue = AsyncJobQueue(lambda: os.environ.get("PYWHEEL_STORE", "sqlite:///shop.db"))
ORDERS = os.environ.get("SHOP_ORDERS", "orders.db")  # a database of its own: it shares no transaction with the jobs
TABLE = "CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, state TEXT NOT NULL)"
PLACE = "INSERT INTO orders VALUES (?, 'unpaid') ON CONFLICT DO NOTHING"
PAY = "UPDATE orders SET state = 'paid' WHERE number = ? AND state = 'unpaid'"
CLOSE = "INSERT INTO orders VALUES (?, 'closed') ON CONFLICT DO UPDATE SET state = 'closed' WHERE state = 'unpaid'"


def change(statement: str, order: int) -> bool:
    """Change an order, committed; return whether that changed anything."""
    with closing(sqlite3.connect(ORDERS, timeout=30)) as connection, connection:
        connection.execute(TABLE)
        return connection.execute(statement, (order,)).rowcount > 0


def look(order: int) -> str | None:
    """Return the state of an order."""
    with closing(sqlite3.connect(ORDERS, timeout=30)) as connection:
        connection.execute(TABLE)
        found = connection.execute("SELECT state FROM orders WHERE number = ?", (order,)).fetchone()
        return found and found[0]


@queue.handler("order.close")
async def close_order(job):
    """Look again, whatever was cancelled: a paid order stays paid."""
    await asyncio.to_thread(change, CLOSE, job.json()["order"])


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Work in each process of the server; without this, `pywheel work fastapi_shop:queue` does it in its own."""
    async with queue, AsyncWorker(queue):
        yield


async def jobs() -> AsyncJobQueue:
    return queue


Jobs = Annotated[AsyncJobQueue, Depends(jobs)]  # a test may have another: app.dependency_overrides[jobs]
app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}", status_code=201)
async def place(order: int, jobs: Jobs, delay: str = "30m") -> dict[str, int]:
    """First the job, then the order: no crash in between leaves an unpaid order that nobody closes."""
    id = await jobs.put("order.close", {"order": order}, delay=delay, key=f"order-{order}", replace=True)
    await asyncio.to_thread(change, PLACE, order)
    return {"job": id}


@app.get("/orders/{order}")
async def show(order: int) -> dict[str, str]:
    found = await asyncio.to_thread(look, order)
    if found is None:
        raise HTTPException(404, "there is no such order")
    return {"state": found}


@app.post("/orders/{order}/pay")
async def pay(order: int, jobs: Jobs) -> dict[str, str]:
    """First the payment, committed, then the cancel: a job that a crash in between leaves finds the order paid."""
    if not await asyncio.to_thread(change, PAY, order):
        raise HTTPException(409, "the order is not unpaid")
    await jobs.cancel(("order.close", f"order-{order}"))
    return {"state": "paid"}


@app.get("/jobs/{job}")
async def state(job: int, jobs: Jobs) -> dict[str, str]:
    return {"state": (await jobs.get(job)).state}
