"""A Django project with its jobs in its own database: the server, the workers, the commands, its own tests."""

import json
import re
import sqlite3

import pytest

from pywheel import JobQueue
from tests.frameworks.programs import DJANGO, Project
from tests.isolated.child import run
from tests.jobs.waiting import until
from tests.stores.django_database import database
from tests.stores.emptied import emptied

SERVERS = {
    "runserver": ("manage.py", "runserver", "--noreload", "PORT"),
    "gunicorn": ("-m", "gunicorn", "--preload", "-w", "2", "-b", "127.0.0.1:PORT", "--no-control-socket", "shop.wsgi"),
    "asgi": ("-m", "uvicorn", "--port", "PORT", "shop.asgi:application"),
}


@pytest.mark.drawn(1)
@pytest.mark.parametrize("server", SERVERS)
def test_an_order_and_its_job_are_one_transaction_and_a_worker_closes_it(migrated, server):
    assert "Traceback" not in delivered(migrated, server, "--processes", "2")


@pytest.fixture(params=["postgres", "mariadb"])
def shop_on_server(request, start, tmp_path):
    server = request.getfixturevalue(f"{request.param}_server")
    url = server.url() if request.param == "postgres" else emptied(server)
    return Project(start, tmp_path, SHOP_DATABASE=json.dumps(database(url)))


@pytest.mark.drawn(1)
def test_so_it_is_on_servers(shop_on_server):
    shop_on_server.manage("migrate", "-v", "0")
    delivered(shop_on_server, "gunicorn")


def delivered(shop, server, *more, manage="manage.py", **where):
    """Have a server take orders and a worker close them; return what the worker said."""
    web = shop.start(*SERVERS[server], SHOP_UNPAID="300ms")
    worker = shop.start(manage, "pywheel", "work", *more, **where)
    refused = [web.ask("POST", "/orders?card=refused")[0] for _ in range(3)]
    orders = [web.ask("POST", "/orders")[1]["order"] for _ in range(5)]
    for order in orders:
        until(lambda order=order: web.ask("GET", f"/orders/{order}")[1]["state"] == "closed")
    assert refused == [402] * 3
    order = web.ask("POST", "/orders")[1]["order"]
    if web.ask("POST", f"/orders/{order}/pay")[0] == 200:  # else the machine had other things to do, and it was closed
        until(lambda: web.ask("GET", f"/orders/{order}")[1] == {"state": "paid", "mails": 1, "invoiced": True})
    assert worker.stop() == 0, worker.said
    web.stop()
    return worker.said


def test_the_commands_work_on_the_projects_store(migrated, tmp_path):
    assert "usage" in migrated.manage("pywheel", "--help").lower()
    migrated.manage("pywheel", "put", "mail", "5", "--delay", "1h", "--key", "k")
    cancel = ("pywheel", "cancel", "k", "--topic", "mail")
    said = migrated.call(("pywheel", "counts", "--json"), cancel, ("pywheel", "info"))
    assert json.loads(said.splitlines()[0])["mail"]["delayed"] == 1
    assert f"sqlite:///{tmp_path}/db.sqlite3" in said
    migrated.manage(*cancel, code=1)


def test_django_takes_its_own_options_and_the_command_the_others(migrated):
    assert migrated.manage("pywheel", "put", "mail", "--settings=settings") == "1\n"
    assert migrated.manage("pywheel", "--settings", "settings", "put", "mail", "--pythonpath", ".") == "2\n"
    migrated.manage("pywheel", "put", "mail", "--text", "--", "--settings")
    assert json.loads(migrated.manage("pywheel", "show", "3", "--json"))["body"] == "--settings"


def test_a_command_that_a_program_calls_leaves_its_variables_alone(migrated):
    lines = "import os; from django.core.management import call_command; call_command('pywheel', 'put', 'mail')"
    assert migrated.shell(lines, "; print(os.environ.get('PYWHEEL_STORE'))") == "1\nNone\n"


@pytest.mark.drawn(1)
@pytest.mark.parametrize("more", [[], ["--processes", "2"], ["--reload"]], ids=["one", "two", "reload"])
def test_workers_find_the_project_wherever_they_are_started(migrated, tmp_path, more):
    where = tmp_path / "elsewhere"
    where.mkdir()
    said = delivered(migrated, "gunicorn", *more, manage=str(DJANGO / "manage.py"), folder=where, PYTHONPATH=None)
    assert "names another store" not in said


def test_commands_that_walk_all_models_find_no_table_of_jobs_missing(migrated):
    migrated.call(
        ("check",),
        ("makemigrations", "--check", "--dry-run"),
        ("dumpdata", "-o", "/dev/null"),
        ("flush", "--no-input", "-v", "0"),
    )


def test_a_project_that_has_tables_already_gets_its_jobs_beside_them(shop, tmp_path):
    path = tmp_path / "db.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (number INTEGER)")
        connection.execute("INSERT INTO orders VALUES (42)")
    connection.close()
    shop.call(("migrate", "-v", "0"), ("migrate", "-v", "0"), ("pywheel", "put", "mail"), ("pywheel", "verify"))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT * FROM orders").fetchall() == [(42,)]
    connection.close()


def test_before_it_is_migrated_the_project_says_so_and_makes_nothing(shop, tmp_path):
    (tmp_path / "db.sqlite3").touch()
    shop.manage("check")
    assert (tmp_path / "db.sqlite3").stat().st_size == 0


def test_the_projects_own_tests_pass(shop):
    assert "OK" in shop.manage("test", "shop")


def test_the_admins_search_looks_at_some_thousand_jobs_for_a_page(migrated):
    said = migrated.shell("""
from pywheel.django import queue
from pywheel.django.admin import _found
queue.put_many([queue.job('mail', n) for n in range(6_000)])
jobs, following = _found({'error': 'refused'}, '')
print(jobs, following, _found({'error': 'refused'}, following))
""")
    assert re.fullmatch(r"\[\] i5\d\d\d \(\[\], None\)", said.strip().splitlines()[-1])


def test_the_admin_changes_jobs_though_each_request_is_a_transaction_that_locks_the_database(migrated, tmp_path):
    database = {
        "ENGINE": "django.db.backends.sqlite3", "NAME": f"{tmp_path}/db.sqlite3", "ATOMIC_REQUESTS": True,
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }  # fmt: skip
    migrated.variables["SHOP_DATABASE"] = json.dumps(database)
    said = migrated.shell("""
from django.contrib.auth.models import User
from django.test import Client
from pywheel.django import queue
client = Client()
client.force_login(User.objects.create_superuser('admin'))
id = queue.put('mail', delay='1h')
for page in ('', f'{id}/change/', f'{id}/history/'):
    for action in ('cancel', 'retry'):
        client.post(f'/admin/pywheel/job/{page}', {'action': action, 'id': [id]})
        print(queue.get(id).state)
""")
    assert said.split() == ["cancelled", "delayed"] * 3


@pytest.mark.drawn(1)
def test_so_they_do_on_servers(shop_on_server):
    """There a connection that was closed in a test has lost the test's transaction."""
    assert "OK" in shop_on_server.manage("test", "--no-input", "shop")


TESTS = """
from django.db import transaction
from django.test import TestCase, TransactionTestCase

from pywheel.django import queue


class Inside(TestCase):
    def test_it_is_never_committed(self):
        number = self.client.post("/orders").json()["order"]
        assert not any(queue.topics.counts().get("order.close", ())), number


class Outside(TransactionTestCase):
    def test_it_is(self):
        self.client.post("/orders")
        assert queue.topics.counts()["order.close"].delayed == 1
"""


def test_a_projects_tests_may_put_into_the_database_of_the_test(shop_on_server, tmp_path):
    """Django drops it at their end, which PostgreSQL refuses while the queue is connected to it."""
    (tmp_path / "shop_tests.py").write_text(TESTS)
    shop_on_server.variables["PYTHONPATH"] = str(tmp_path)
    assert "OK" in shop_on_server.manage("test", "--no-input", "shop_tests")


ADDRESSES = {
    "postgresql": (
        {
            "NAME": "sh/op", "USER": "me", "PASSWORD": "p@ss:w", "HOST": "db", "PORT": 6543,
            "OPTIONS": {"sslmode": "require", "pool": True},
        },
        "postgresql://me:p%40ss%3Aw@db:6543/sh%2Fop?sslmode=require",
    ),
    "postgresql-socket": (
        {"NAME": "shop", "HOST": "/run/pg", "PORT": "5433"}, "postgresql:///shop?host=%2Frun%2Fpg&port=5433",
    ),
    "postgresql-ipv6": ({"NAME": "shop", "HOST": "::1"}, "postgresql://[::1]/shop"),
    "postgresql-hosts": ({"NAME": "shop", "USER": "me", "HOST": "a,::1"}, "postgresql://me@a,[::1]/shop"),
    "postgresql-hosts-port": ({"NAME": "shop", "HOST": "a,b", "PORT": 6543}, "postgresql://a:6543,b:6543/shop"),
    "postgresql-hosts-ports": (
        {"NAME": "shop", "USER": "me", "HOST": "a,b", "PORT": "5432,5433"}, "postgresql://me@a:5432,b:5433/shop",
    ),
    "postgresql-port": ({"NAME": "shop", "PORT": "5433"}, "postgresql://:5433/shop"),
    "mysql": (
        {"NAME": "shop", "USER": "me", "HOST": "db", "OPTIONS": {"ssl": {"ca": "/ca.pem"}, "charset": "utf8mb4"}},
        "mysql://me@db/shop?ssl_ca=%2Fca.pem",
    ),
    "mysql-socket": (
        {"NAME": "shop", "USER": "me", "HOST": "/run/my.sock"}, "mysql://me@/shop?unix_socket=%2Frun%2Fmy.sock",
    ),
    "sqlite": ({"NAME": "/var/lib/a b?.db"}, "sqlite:////var/lib/a%20b%3F.db"),
}  # fmt: skip
ADDRESS = """
import json, sys
import django, pymysql
from django.conf import settings

pymysql.install_as_MySQLdb()
settings.configure(DATABASES={"default": {}, **json.loads(sys.argv[1])})
from pywheel.django.database import store_url
for alias in json.loads(sys.argv[1]):
    settings.PYWHEEL_DATABASE = alias
    print(store_url())
"""


def addresses(databases):
    """Return the addresses of the stores in these databases, and what went wrong."""
    engines = {name: "sqlite3" if name == "sqlite" else name.partition("-")[0] for name in databases}
    told = {name: {"ENGINE": f"django.db.backends.{engines[name]}", **databases[name]} for name in databases}
    result = run("-c", ADDRESS, json.dumps(told))
    return result.stdout.splitlines(), result.stderr


def test_the_address_of_the_store_is_that_of_djangos_database():
    found, error = addresses({name: settings for name, (settings, _) in ADDRESSES.items()})
    assert dict(zip(ADDRESSES, found, strict=True)) == {name: address for name, (_, address) in ADDRESSES.items()}, (
        error
    )


def test_a_database_in_which_no_jobs_can_be_is_refused_with_what_to_do():
    for databases in ({"sqlite": {"NAME": ":memory:"}}, {"dummy": {}}, {"mysql": {"OPTIONS": {"ssl": True}}}):
        assert "set PYWHEEL_STORE" in addresses(databases)[1].splitlines()[-1]


def test_a_number_of_ports_that_is_not_that_of_the_hosts_is_refused():
    error = addresses({"postgresql": {"HOST": "a,b,c", "PORT": "5432,5433"}})[1]
    assert error.splitlines()[-1].endswith("BadOption: the database has 3 hosts and 2 ports")


CONNECTIONS = """
import asyncio, sys
import django
from django.conf import settings

database = {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}
settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["pywheel.django"])
django.setup()
from asgiref.sync import sync_to_async
from django.db import connection
from pywheel import GiveUp, Worker
from pywheel.django import queue

seen = []

def note():
    seen.append(connection.connection is None)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    seen.append(connection.connection is None)

@queue.handler("plain", concurrency=1)
def plain(job):
    note()

@queue.handler("async", concurrency=1)
async def coroutine(job):
    await sync_to_async(note)()

@queue.task("task", concurrency=1)
def task(n: int):
    note()

@queue.handler("dead")
def dead(job):
    raise GiveUp

@queue.on_dead
def told(job):
    note()

@queue.on_dead
async def told_on_the_loop(job):
    await sync_to_async(note)()

worker = Worker(queue)
worker.start()
for topic, body in [("plain", None), ("async", None), ("task", {"n": 1}), ("dead", None)] * 2:
    id = queue.put(topic, body)
    while queue.get(id).state.live:
        pass
worker.stop()
worker.join()
print(seen.count(True) == seen.count(False) == 10, seen)
"""


def test_each_handler_begins_with_no_connection_of_the_one_before(tmp_path):
    """As a view does, with Django's own CONN_MAX_AGE of 0."""
    with JobQueue(f"sqlite:///{tmp_path}/db.sqlite3"):
        pass
    result = run("-c", CONNECTIONS, f"{tmp_path}/db.sqlite3")
    assert result.stdout.startswith("True"), result.stdout + result.stderr


AT_ONCE = """
import asyncio, sys, threading
import django
from django.conf import settings

database = {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}
settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["pywheel.django"])
django.setup()
from asgiref.sync import sync_to_async
from django.db import connection
from pywheel import Worker
from pywheel.django import queue

begun, over = threading.Event(), threading.Event()

def rows():
    cursor = connection.cursor()
    cursor.execute("SELECT 1 UNION SELECT 2")
    return cursor

@queue.handler("long", concurrency=2)
async def long(job):
    cursor = await sync_to_async(rows)()
    begun.set()
    await asyncio.to_thread(over.wait)
    print(await sync_to_async(cursor.fetchall)())

@queue.handler("short", concurrency=2)
async def short(job):
    await sync_to_async(rows)()

def finished(id):
    while queue.get(id).state.live:
        pass

worker = Worker(queue)
worker.start()
slow = queue.put("long", ttr="1h")
begun.wait()
finished(queue.put("short"))
over.set()
finished(slow)
worker.stop()
worker.join()
print(queue.get(slow).last_error)
"""


def test_a_coroutine_that_reads_rows_keeps_its_connection_while_another_one_ends(tmp_path):
    with JobQueue(f"sqlite:///{tmp_path}/db.sqlite3"):
        pass
    result = run("-c", AT_ONCE, f"{tmp_path}/db.sqlite3")
    assert result.stdout == "[(1,), (2,)]\nNone\n", result.stdout + result.stderr


THREADS = """
import asyncio, sys, threading
import django
from django.conf import settings

database = {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}
settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["pywheel.django"])
django.setup()
from pywheel.django import queue

async def coroutine(job):
    pass

begun, begin = [], threading.Thread.start
threading.Thread.start = lambda thread: (begun.append(thread.name), begin(thread))
asyncio.run(queue.middleware.around_function(coroutine)(None))
print(begun)
"""


def test_a_coroutine_that_calls_no_synchronous_function_begins_no_thread(tmp_path):
    result = run("-c", THREADS, f"{tmp_path}/db.sqlite3")
    assert result.stdout == "[]\n", result.stdout + result.stderr


def test_each_further_migration_in_a_process_changes_nothing(migrated):
    """Tests of migrations run many: each one wrapped what drops the database once more."""
    assert "drops 1" in migrated.shell("""
from django.core.management import call_command
from django.db import connection
drops = [(call_command("migrate", verbosity=0), connection.creation.destroy_test_db) for _ in range(3)]
print("drops", len({id(drop) for _, drop in drops}))
""")
