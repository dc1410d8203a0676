"""Processes beside a SQLite file that is taken away: each ends with the worker's message, and leaves nobody waiting."""

import asyncio
import os
import threading

import pytest

from pywheel import JobQueue
from pywheel.jobs.queries import ListWorkers
from tests.cli.running import running
from tests.jobs.waiting import until
from tests.outlets.amqp import amqp
from tests.server.client import Process, listens
from tests.worker.test_store_gone import delete, replace

pytestmark = [
    pytest.mark.stress,
    pytest.mark.skipif(os.name == "nt", reason="files that are open cannot be deleted there"),
]
STORE_FAILED = 3


@pytest.fixture
def serve(tmp_path):
    made = []

    def serve(*options, **words):
        made.append(Process(tmp_path, "--open", *options, **words))
        return made[-1]

    yield serve
    for server in made:
        server.stop()


def ended(server):
    """Return what a server that ends by itself said, and its exit code."""
    code = server.process.wait(60)
    return code, server.log.read_text()


@pytest.mark.parametrize(
    ("take_away", "said", "options"),
    [
        (delete, "jobs.db was deleted", ()),
        *((replace, "jobs.db was replaced by another file while it was open", (o,)) for o in ("--read-only", "--work")),
    ],
)
def test_an_idle_service_whose_store_is_gone_ends_with_that_error(serve, tmp_path, take_away, said, options):
    url = f"sqlite:///{tmp_path}/jobs.db"
    JobQueue(url).close()
    program = f"from pywheel import JobQueue\nqueue = JobQueue({url!r})\nqueue.handler('t')(print)"
    (tmp_path / "shop.py").write_text(program)
    server = serve(*options, target=("shop:queue",) if options else ())
    if not options:
        assert server("POST", "/v1/jobs", json={"topic": "t"}).status_code == 201
    take_away(tmp_path / "jobs.db")
    code, text = ended(server)
    assert code == STORE_FAILED
    assert said in text.splitlines()[-1]
    assert "Traceback" not in text
    assert not listens(server.port)


def test_a_client_that_waits_is_told_at_once_that_no_job_comes(serve, tmp_path):
    server, answers = serve(), []

    def wait():
        answers.append(server("POST", "/v1/reserve", json={"topics": ["t"], "wait": 30}).status_code)

    client = threading.Thread(target=wait)
    client.start()
    with JobQueue(server.store) as queue:
        until(lambda: any("t" in worker.topics for worker in queue.store.ask(ListWorkers())))
    # It came first, so its own look is over when this one is: from here on it waits, and looks no more.
    assert server("POST", "/v1/reserve", json={"topics": ["t"]}).status_code == 204
    delete(tmp_path / "jobs.db")
    code, _ = ended(server)
    client.join(60)
    assert code == STORE_FAILED
    assert answers in ([204], [503])


def test_a_service_goes_on_beside_a_store_that_is_as_it_was(serve, tmp_path):
    server = serve()
    with JobQueue(server.store) as queue:
        queue.store.vacuum(100)
        for number in range(30):
            queue.put("t", number)
            assert server("GET", "/readyz").status_code == 200
    assert server.process.poll() is None


def test_a_process_that_delivers_ends_as_well(tmp_path):
    (tmp_path / "outlets.toml").write_text('[outlets.shop]\nkind = "webhook"\n')
    url = f"sqlite:///{tmp_path}/jobs.db"
    with running("deliver", "--store", url, folder=tmp_path) as command:
        command.says("working on")
        delete(tmp_path / "jobs.db")
        assert "while it was open" in command.ends(STORE_FAILED).splitlines()[-1]


def test_a_bridge_ends_as_well_and_leaves_the_message_in_its_queue(rabbitmq_server, tmp_path):
    async def program(act):
        async with amqp(rabbitmq_server) as broker:
            return await act(broker)

    name = asyncio.run(program(lambda broker: broker.queue()))
    arguments = ("rabbitmq", name, "--topic", "t", "--broker", rabbitmq_server.url())
    with running("bridge", *arguments, "--store", f"sqlite:///{tmp_path}/jobs.db", folder=tmp_path) as command:
        command.says("takes messages from")
        replace(tmp_path / "jobs.db")
        asyncio.run(program(lambda broker: broker.publish(b"{}", name, headers={"x-delay": 3_600_000})))
        assert "while it was open" in command.ends(STORE_FAILED).splitlines()[-1]
    until(lambda: asyncio.run(program(lambda broker: broker.count(name))) == 1)
