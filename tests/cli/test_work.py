"""``pywheel work`` up to the worker: which queue, which store, which topics; what it says; its view; its reload."""

import contextlib
import io
import os
import sys
import types
from pathlib import Path

import pytest
from rich.console import Console

from pywheel import BadOption, JobQueue
from pywheel.cli import live_view
from pywheel.cli.live_view import LiveView
from pywheel.cli.work import Terms, _Drain, _Look, _ready, _say_what_is_wrong
from pywheel.events import JobEnded, JobGivenBack, JobsPut, JobStarted, LeaseLost, WorkerDrains
from pywheel.jobs import Counts, Job, Outcome, State
from pywheel.processes import reload
from pywheel.stores.address import Address
from tests.jobs.waiting import until

TERMS = Terms(None, {"topics": None, "grace": 30, "keep": None}, live=False)


@pytest.fixture
def shop(monkeypatch):
    """A program with a queue in memory."""
    module = types.ModuleType("shop_of_a_test")
    module.queue = JobQueue("memory:")
    for topic in ("mail", "close"):
        module.queue.handler(topic)(print)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with module.queue:
        yield module


def job(id):
    return Job(id=id, topic="t", body=b"", due=0, created=0, state=State.RUNNING)


# ---- which queue ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "topics", "said"),
    [
        ("shop_of_a_test:other", (), "is no JobQueue"),
        ("shop_of_a_test:quue", (), r"no quue in shop_of_a_test, did you mean queue\?"),
        ("shop_of_a_test:queue", ("close", "mial"), "no handler for 'mial', did you mean mail"),
        ("shop_of_a_test:queue", ("x",), "there are mail, close"),
        ("./shop.py:queue", (), "write shop:queue$"),
        ("shop.py:queue", (), "write shop:queue$"),
        ("shop/jobs.py:queue", (), "write shop.jobs:queue$"),
        ("./shop/jobs:queue", (), "write shop.jobs:queue$"),
        (".shop:queue", (), "write shop:queue$"),
        ("/srv/shop.py:queue", (), "change into /srv and write shop:queue$"),
        ("../a b/shop.py:queue", (), "change into ../a b and write shop:queue$"),
        ("shop.py", (), "write it like shop.jobs:queue$"),
    ],
)
def test_what_is_no_queue_or_has_no_such_topic_is_refused_with_the_right_spelling(shop, target, topics, said):
    shop.other = types.SimpleNamespace(store=None, handlers={})
    with pytest.raises(BadOption, match=said):
        _ready(target, TERMS._replace(options={"topics": topics}))


def test_another_store_is_that_of_the_handlers_puts_too_and_the_queues_own_is_not_opened(shop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shop.queue = JobQueue(lambda: pytest.fail("it was opened"))
    shop.queue.handler("mail")(print)
    with _ready("shop_of_a_test:queue", TERMS._replace(store="sqlite:///other.db")) as queue:
        assert queue is shop.queue
        assert queue.store.url == f"sqlite:///{tmp_path}/other.db"
        assert queue.put("mail") == 1


# ---- what it says ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["postgresql://me:p%40ss@db/x?host=%2Frun%2Fpg", "redis://:secret@db/0", "memory:"])
def test_a_store_in_the_environment_that_is_the_queues_own_is_not_noted(monkeypatch, capsys, address):
    """A queue shows its address without the password."""
    monkeypatch.setenv("PYWHEEL_STORE", address)
    shown = address if address == "memory:" else Address(address).shown
    TERMS.say_where("working", shown, ("mail",))
    assert capsys.readouterr().err == f"pywheel: working on {shown}, topics mail\n"


@pytest.mark.parametrize("chosen", [None, "sqlite:///here.db"])
def test_a_store_in_the_environment_that_does_not_count_is_noted(monkeypatch, capsys, chosen):
    """By one process, and by the supervisor of several, once they say where they work."""
    monkeypatch.setenv("PYWHEEL_STORE", "sqlite:////elsewhere.db")
    terms = TERMS._replace(store=chosen)
    terms.say_where("working", "sqlite:////here.db", ("mail",))
    alone = capsys.readouterr().err
    assert alone.startswith("pywheel: working on sqlite:////here.db, topics mail\n")
    assert ("PYWHEEL_STORE names another store" in alone) is (chosen is None)
    about = {"store": "sqlite:////here.db", "topics": ["mail"]}
    look = _Look(types.SimpleNamespace(about=about, stopping=False), terms, contextlib.ExitStack())
    look()
    look()
    assert capsys.readouterr().err == alone.replace("working on", "1 processes working on")


def test_a_drain_says_how_many_handlers_are_under_way(capsys):
    drain = _Drain(TERMS)
    for id in range(1, 7):
        drain(JobStarted(job(id), 0.0))
    drain(JobEnded(job(1), Outcome.DONE, State.DONE, 0.1, None))
    drain(JobGivenBack(job(2)))
    drain(LeaseLost(job(3)))
    drain(WorkerDrains("w", 30.0))
    said = capsys.readouterr().err
    assert "3 handlers under way, 30 s for them" in said
    assert "Ctrl-C once more ends it" in said
    _Drain(TERMS)(WorkerDrains("w", 1.5))
    assert "no handler is under way" in capsys.readouterr().err


# ---- the live view --------------------------------------------------------------------------------------------------


class Asked:
    """A queue that counts how often it is asked."""

    def __init__(self, topics=3, takes=0.0):
        self.calls, self.listeners, self.takes, self.now = 0, [], takes, 1_000.0
        self.events, self.topics = types.SimpleNamespace(listen=self.listeners.append), self
        self.found = {f"t{n:03}": Counts(delayed=n % 2) for n in range(topics)}

    def counts(self):
        self.calls += 1
        self.now += self.takes
        return self.found


def view_of(queue, monkeypatch):
    monkeypatch.setattr(live_view, "time", types.SimpleNamespace(monotonic=lambda: queue.now))
    return LiveView(queue)


def shown(view):
    out = io.StringIO()
    Console(file=out, width=120).print(view.render())
    return out.getvalue()


@pytest.mark.parametrize(("takes", "pauses", "calls"), [(0.0, [0.1] * 100, {5, 6}), (1.0, [0.5] * 200, {1, 2})])
def test_the_view_counts_every_two_seconds_and_a_slow_store_a_hundredth_of_the_time(monkeypatch, takes, pauses, calls):
    queue = Asked(takes=takes)
    view = view_of(queue, monkeypatch)
    for pause in pauses:
        queue.now += pause
        shown(view)
    assert queue.calls in calls


def test_many_topics_do_not_push_the_numbers_off_the_screen(monkeypatch):
    queue = Asked(topics=500)
    view = view_of(queue, monkeypatch)
    queue.listeners[0](JobsPut("t", 1))
    text = shown(view)
    assert len(text.splitlines()) < 30
    assert "and 480 more topics" in text
    assert "t001" in text
    assert "t000" not in text
    assert "late p50 / p99 / max" in text


# ---- reload ---------------------------------------------------------------------------------------------------------


def test_the_sources_of_the_program_are_watched_and_no_others():
    files = reload.project_files()
    assert Path(__file__).resolve() in files
    assert not [file for file in files if "site-packages" in file.parts or file.parent.name == "json"]
    assert Path(reload.__file__).resolve() not in files


def test_a_changed_source_is_told_once_and_ends_in_beginning_again(monkeypatch, tmp_path):
    source, told = tmp_path / "shop.py", []
    source.write_text("")
    monkeypatch.setattr(reload, "project_files", lambda: {source})
    monkeypatch.setattr(reload, "_EVERY", 0.001)
    monkeypatch.setattr(reload, "begin_again", lambda stopped: told.append(stopped()))
    worker = types.SimpleNamespace(told_to_stop=False, retire=lambda: told.append("retire"))
    with reload.Watch(told.append).over(worker):
        os.utime(source, (1, 1))
        until(lambda: "retire" in told)
    assert told == [f"{source} has changed, beginning again", "retire", False]


def test_a_program_that_cannot_be_loaded_is_waited_for(monkeypatch, tmp_path, capsys):
    import threading

    source = tmp_path / "shop.py"
    source.write_text("(")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reload, "_EVERY", 0.001)
    threading.Timer(0.05, os.utime, (source, (1, 1))).start()
    reload.wait_for_change(lambda: _say_what_is_wrong(SyntaxError("never closed")))
    assert "SyntaxError: never closed" in capsys.readouterr().err


def test_without_the_extra_of_its_metrics_it_says_so_before_it_starts_processes(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    code, _, err = call("work", "no.such:queue", "--processes", 2, "--metrics-port", 0)
    assert (code, err.count("\n")) == (2, 1)
    assert "pip install 'pywheel-timer[telemetry]'" in err
