"""A shop on FastAPI: an order and the job that closes it unless it is paid, in one transaction of SQLAlchemy's.

uvicorn fastapi_shop:app
gunicorn --preload --workers 2 --worker-class uvicorn_worker.UvicornWorker fastapi_shop:app
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pywheel import AsyncJobQueue, AsyncWorker

# Orders and jobs are in one database, so that one transaction may have both. On a server, such as
# postgresql+asyncpg://shop@db/shop and postgresql://shop@db/shop, it is the same program.
DATABASE = os.environ.get("SHOP_DATABASE", "sqlite+aiosqlite:///shop.db")
TABLE = "CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, state VARCHAR(10) NOT NULL)"

# The function is called at the first use: in each worker process, and not before the server forks.
queue = AsyncJobQueue(lambda: os.environ.get("PYWHEEL_STORE", "sqlite:///shop.db"))
engine = create_async_engine(DATABASE)
Session = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(default="unpaid")


def change(order: int, to: str):
    """Change an unpaid order: whoever comes second changes nothing."""
    return update(Order).where(Order.number == order, Order.state == "unpaid").values(state=to)


@queue.task("order.close", key=lambda order: f"order-{order}")
async def close_order(order: int) -> None:
    """Look again: the payment may have come while this job was starting."""
    async with Session.begin() as session:
        await session.execute(change(order, "closed"))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Work in each process of the server, on its loop; without this, `pywheel work fastapi_shop:queue` does it."""
    await queue.topics.counts()  # opens the store: on SQLite before the shop makes a table in its file
    async with engine.begin() as connection:
        await connection.execute(text(TABLE))
    async with AsyncWorker(queue):
        yield
    await queue.close()
    await engine.dispose()


async def session() -> AsyncIterator[AsyncSession]:
    async with Session() as session:
        yield session


Database = Annotated[AsyncSession, Depends(session)]
app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}", status_code=201)
async def place(order: int, session: Database, delay: str = "30m") -> dict[str, int]:
    """The order is there exactly if its job is."""
    session.add(Order(number=order))
    try:
        await session.flush()
    except IntegrityError:
        raise HTTPException(409, "there is such an order") from None
    id = await close_order.options(delay=delay, connection=session).put(order)
    await session.commit()
    return {"job": id}


@app.get("/orders/{order}")
async def show(order: int, session: Database) -> dict[str, str]:
    found = await session.get(Order, order)
    if found is None:
        raise HTTPException(404, "there is no such order")
    return {"state": found.state}


@app.post("/orders/{order}/pay")
async def pay(order: int, session: Database) -> dict[str, str]:
    """The order is paid exactly if its job is cancelled, or runs already: then that finds it paid."""
    if not (await session.execute(change(order, "paid"))).rowcount:
        raise HTTPException(409, "the order is not unpaid")
    await close_order.options(connection=session).cancel(order)
    await session.commit()
    return {"state": "paid"}


@app.get("/jobs/{job}")
async def state(job: int) -> dict[str, str]:
    return {"state": (await queue.get(job)).state}
