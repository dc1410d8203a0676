"""A shop on FastAPI and PostgreSQL, with two workers: each of them is killed, and no order is lost or left unpaid."""

import contextlib

import pytest

from tests.frameworks.programs import FOLDER
from tests.packaging.journeys.shops import Customers, are_balanced, asked


@pytest.fixture
def database(postgres_server):
    with postgres_server.connect() as admin:
        admin.execute("DROP DATABASE IF EXISTS journey WITH (FORCE)")
        admin.execute("CREATE DATABASE journey")
    with contextlib.closing(postgres_server.connect(dbname="journey")) as connection:
        yield connection


def test_each_order_is_paid_or_closed_by_its_one_job_whoever_is_killed(start, database, postgres_server, pause):
    place = f"pywheel@/journey?host={postgres_server.folder}&port={postgres_server.port}"
    variables = {"PYWHEEL_STORE": f"postgresql://{place}", "SHOP_DATABASE": f"postgresql+asyncpg://{place}"}
    server = ("-m", "uvicorn", "--port", "PORT", "fastapi_shop:app")
    worker = ("-m", "pywheel.cli", "work", "fastapi_shop:queue")
    programs = [start(*command, folder=FOLDER, **variables) for command in (server, worker, worker)]

    def place_order(number):
        answer = asked(programs[0], f"/orders/{number}?delay=300ms")
        return number if answer is not None and answer[0] == 201 else None

    def pay(order):
        answer = asked(programs[0], f"/orders/{order}/pay")
        return answer is not None and answer[0] == 200

    def books():
        orders = dict(database.execute("SELECT number, state FROM orders").fetchall())
        [[live]] = database.execute("SELECT count(*) FROM pywheel_job").fetchall()
        return orders, live, [key for [key] in database.execute("SELECT key FROM pywheel_finished").fetchall()]

    with Customers(place_order, pay) as told:
        for number in (1, 0, 2, 1, 0):
            pause(1)
            programs[number].kill()
            command = worker if number else server
            programs[number] = start(*command, folder=FOLDER, **variables)
        told.enough()
    are_balanced(books, told)
    for program in programs[1:]:
        assert program.stop() == 0, program.said
