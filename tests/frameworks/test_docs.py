"""The code in docs/frameworks.md and docs/orders.md works as shown."""

import os
import re
import shutil

import pytest

from tests.docs.pages import ROOT, blocks
from tests.frameworks.programs import DJANGO
from tests.isolated.child import run, run_well

GUNICORN, ON_COMMIT = blocks("docs/frameworks.md", "py")
BEFORE = """
from functools import partial
from shop.models import Order
"""
PROJECT = """
from django.db import connection, transaction
from pywheel.django import queue
"""
PAID = """
assert Order.objects.get(pk=number).state == "paid"
assert [job.state.name for job in queue.jobs.list()] == ["CANCELLED"]
"""
CLOSED = """
_, job = queue.jobs.list()
close_order(job.json()["order"])
assert Order.objects.get(pk=order.pk).state == "closed"
"""
SHOP = """
import os
import sqlite3
import time
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.testclient import TestClient
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from fastapi_shop import TABLE, Order
from pywheel import AsyncJobQueue, AsyncWorker, JobQueue

async def session():
    async with Session() as session:
        yield session

Database = Annotated[AsyncSession, Depends(session)]
app = FastAPI()
"""
CUSTOMERS = """
jobs = JobQueue("sqlite:///shop.db")
jobs.topics.counts()
sqlite3.connect("shop.db").execute(TABLE)
app.router.lifespan_context = lifespan
with TestClient(app) as client:
    assert [client.post(f"/orders/{order}").status_code for order in (7, 8)] == [201, 201]
    assert [client.post("/orders/7/pay").status_code for _ in range(2)] == [200, 409]
    assert jobs.reschedule(("order.close", "order-8"), delay=0)
    until = time.monotonic() + 30
    while [job.state.name for job in jobs.jobs.list()] != ["CANCELLED", "DONE"]:
        assert time.monotonic() < until
        time.sleep(0.01)
    orders = sqlite3.connect("shop.db").execute("SELECT * FROM orders").fetchall()
    assert orders == [(7, "paid"), (8, "closed")], orders
"""


def test_the_example_runs(tmp_path):
    [code] = blocks("docs/frameworks.md", "python")
    run_well("-W", "error", "-c", code, cwd=tmp_path)


def test_the_lines_for_gunicorn_are_those_of_the_example():
    example = iter((DJANGO.parent / "gunicorn.conf.py").read_text(encoding="utf-8").split())
    assert [word for word in GUNICORN.split() if word not in example] == []


def test_a_put_on_commit_is_stored_in_django(migrated):
    order = "order = Order.objects.create()\n"
    stored = 'assert [job.topic for job in queue.jobs.list()] == ["order.mail"]\n'
    assert migrated.shell(BEFORE, PROJECT, order, ON_COMMIT, stored) == ""


def test_orders_on_django_are_paid_or_closed(migrated):
    place, pay, close = blocks("docs/orders.md", "py")[2:]
    close = close.replace('"order.close"', '"page.close"')  # the project's own has the other topic already
    assert migrated.shell(BEFORE, PROJECT, close, place, "number = order.pk\n", pay, PAID, place, CLOSED) == ""


def test_orders_on_fastapi_are_paid_or_closed(tmp_path):
    program, lifespan, *_ = blocks("docs/orders.md", "py")
    variables = {"PYTHONPATH": f"{DJANGO.parent}{os.pathsep}{ROOT}", "PYWHEEL_STORE": None, "SHOP_DATABASE": None}
    result = run("-c", f"{SHOP}{program}{lifespan}{CUSTOMERS}", cwd=tmp_path, **variables)
    assert result.returncode == 0, result.stderr


@pytest.mark.drawn(1)
@pytest.mark.parametrize("driver", ["aiosqlite", "asyncpg", "psycopg"])
def test_the_test_of_orders_passes_any_number_of_times_on_each_driver(driver, request, tmp_path):
    variables = {"SHOP_DATABASE": None, "PYWHEEL_STORE": None}
    if driver != "aiosqlite":
        server = request.getfixturevalue("postgres_server")
        variables = dict(re.findall(r"(\w+)=(postgresql\S+)", blocks("docs/orders.md", "sh")[0]))
        for name, address in variables.items():
            place = address.replace("asyncpg", driver).replace("shop@db/shop", "pywheel@/pywheel")
            variables[name] = f"{place}?host={server.folder}&port={server.port}"
        assert list(variables) == ["SHOP_DATABASE", "PYWHEEL_STORE"]
    shutil.copy(DJANGO.parent / "test_fastapi_shop.py", tmp_path)
    command = ["-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_fastapi_shop.py"]
    for _ in range(2):
        result = run(*command, cwd=tmp_path, PYTHONPATH=str(DJANGO.parent), **variables)
        assert result.returncode == 0, result.stdout
