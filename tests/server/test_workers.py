"""The workers, by HTTP, and orders to them."""

from contextlib import closing

import pytest

from pywheel.jobs.commands import Announce
from pywheel.jobs.queries import QUIET, GetNote, ListNotes
from pywheel.stores.notifier import order_note
from tests.server.client import problem


@pytest.fixture
def worker(api):
    """The id of a worker that handles two topics."""
    with closing(api.queue.store.notifier("app1:4711")) as ear:
        api.queue.store.apply([Announce(ear.worker, ("mail", "report"))])
        yield ear.worker


def test_a_list_says_who_is_there_and_how_they_do(api, worker):
    [found] = api("GET", "/v1/workers").json()["workers"]
    assert found.pop("silent") < 5
    assert found == {
        "worker": worker, "host": "app1", "process": 4711, "topics": ["mail", "report"], "gone": False, "quiet": False,
        "room": True, "behind": 0.0,
    }  # fmt: skip
    api.queue.store.apply([Announce(worker, (QUIET + "mail",))])
    [found] = api("GET", "/v1/workers").json()["workers"]
    assert (found["quiet"], found["topics"]) == (True, ["mail"])


def test_a_worker_is_told_to_be_quiet_to_go_on_and_to_stop_and_the_log_says_so(api, worker):
    notes = []
    for word in ("quiet", "resume", "stop"):
        assert api("POST", f"/v1/workers/{worker}/{word}").status_code == 204
        notes.append(api.queue.store.ask(GetNote(order_note(worker))))
    assert notes == [b"quiet", None, b"stop"]
    kept = [value for _, value in api.queue.store.ask(ListNotes("audit:"))]
    assert len(kept) == 3
    assert all(f"worker {worker}".encode() in value for value in kept)
    answer = api("POST", "/v1/workers/nobody/stop")
    assert (answer.status_code, problem(answer)) == (404, "not-found")
