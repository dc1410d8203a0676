"""A shop on FastAPI, or on Starlette alone: unpaid orders are closed after a while.

uvicorn fastapi_shop:app
gunicorn --preload --workers 2 --worker-class uvicorn_worker.UvicornWorker fastapi_shop:app
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException

from pywheel import JobQueue, Worker

# The function is called at the first put: in each worker process, and not before the server forks.
queue = JobQueue(lambda: os.environ.get("PYWHEEL_STORE", "sqlite:///shop.db"))
orders: dict[int, str] = {}


@queue.handler("order.close")
async def close_order(job):
    orders.setdefault(job.json()["order"], "unpaid")  # another process may have placed it
    if orders[job.json()["order"]] == "unpaid":
        orders[job.json()["order"]] = "closed"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Work in each process of the server; without this, `pywheel work fastapi_shop:queue` does it in its own."""
    worker = Worker(queue)
    worker.start()
    yield
    worker.stop()
    await asyncio.to_thread(worker.join)
    queue.close()


async def jobs() -> JobQueue:
    return queue


Jobs = Annotated[JobQueue, Depends(jobs)]  # a test may have another: app.dependency_overrides[jobs]
app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}", status_code=201)
async def place(order: int, jobs: Jobs, delay: str = "30m") -> dict[str, int]:
    orders[order] = "unpaid"
    id = await jobs.aput("order.close", {"order": order}, delay=delay, key=f"order-{order}", replace=True)
    return {"job": id}


@app.post("/orders/{order}/pay")
async def pay(order: int, jobs: Jobs) -> dict[str, str]:
    if not await jobs.acancel(("order.close", f"order-{order}")):
        raise HTTPException(409, "the order is closed")
    orders[order] = "paid"
    return {"state": "paid"}


@app.get("/jobs/{job}")
async def state(job: int, jobs: Jobs) -> dict[str, str]:
    return {"state": (await jobs.aget(job)).state}
