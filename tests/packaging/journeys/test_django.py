"""A Django project on MariaDB: server and worker processes are killed, and no order is lost or left unpaid."""

import contextlib
import json

import pytest

from tests.frameworks.programs import DJANGO
from tests.packaging.journeys.shops import Customers, are_balanced, asked

ENGINE = "django.db.backends.mysql"


@pytest.fixture
def database(mariadb_server):
    with contextlib.closing(mariadb_server.connect()) as admin, admin.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS journey")
        cursor.execute("CREATE DATABASE journey CHARACTER SET utf8mb4")
    with contextlib.closing(mariadb_server.connect(database="journey")) as connection:
        yield connection


def read(connection, text):
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall()


def test_each_order_is_paid_or_closed_by_its_one_job_whoever_is_killed(
    start, database, mariadb_server, tmp_path, pause
):
    where = {"ENGINE": ENGINE, "NAME": "journey", "USER": "root", "HOST": str(mariadb_server.socket)}
    variables = {"SHOP_DATABASE": json.dumps(where), "SHOP_FOLDER": str(tmp_path), "SHOP_UNPAID": "300ms"}

    def begin(*command):
        return start(*command, folder=DJANGO, **variables)

    assert begin("manage.py", "migrate", "-v", "0").wait(120) == 0
    server = ("manage.py", "runserver", "--noreload", "PORT")
    worker = ("manage.py", "pywheel", "work", "--processes", "2")
    programs = [begin(*server), begin(*worker)]

    def place(_):
        answer = asked(programs[0], "/orders")
        return answer[1]["order"] if answer is not None and answer[0] == 201 else None

    def pay(order):
        answer = asked(programs[0], f"/orders/{order}/pay")
        return answer is not None and answer[0] == 200

    def books():
        orders = dict(read(database, "SELECT id, state FROM shop_order"))
        [[live]] = read(database, "SELECT count(*) FROM pywheel_job")
        closing = "f.topic = (SELECT id FROM pywheel_topic WHERE name = 'order.close')"
        ended = read(database, f"SELECT f.`key` FROM pywheel_finished f WHERE {closing}")
        return orders, live, [key.decode() if isinstance(key, bytes) else key for [key] in ended]

    with Customers(place, pay) as told:
        for number, command in ((1, worker), (0, server), (1, worker)):
            pause(1.5)
            programs[number].kill()
            programs[number] = begin(*command)
        told.enough()
    are_balanced(books, told)
    assert programs[1].stop() == 0, programs[1].said
