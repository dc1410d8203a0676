"""``pywheel work`` up to the worker: queue, store and topics; its output; its reload."""

import os
import sys
import time
import types

import pytest

from pywheel import BadAddress, BadOption, JobQueue
from pywheel.cli.work import Sources, Terms, _Drain, _Look, _ready, _reloading
from pywheel.events import JobEnded, JobGivenBack, JobStarted, LeaseLost, WorkerDrains
from pywheel.jobs import Job, Outcome, State
from pywheel.stores.address import Address

TERMS = Terms(None, {"topics": None, "grace": 30, "keep": None})


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
        ("shop_of_a_test:other", (), "is not a JobQueue"),
        ("shop_of_a_test:quue", (), r"no quue in shop_of_a_test, did you mean queue\?"),
        ("shop_of_a_test:queue", ("close", "mial"), "no handler for 'mial', did you mean mail"),
        ("shop_of_a_test:queue", ("x",), "there are mail, close"),
        *((wrong, (), "write shop:queue$") for wrong in ("./shop.py:queue", "shop.py:queue", ".shop:queue")),
        *((wrong, (), "write shop.jobs:queue$") for wrong in ("shop/jobs.py:queue", "./shop/jobs:queue")),
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
    look = _Look(types.SimpleNamespace(about=about, stopping=False), terms)
    look()
    look()
    assert capsys.readouterr().err == alone.replace("working on", "1 process working on")


def test_a_drain_says_how_many_handlers_are_under_way(capsys):
    drain = _Drain(TERMS)
    for id in range(1, 7):
        drain(JobStarted(job(id), 0.0))
    for end in (JobEnded(job(1), Outcome.DONE, State.DONE, 0.1, None), JobGivenBack(job(2)), LeaseLost(job(3))):
        drain(end)
    drain(WorkerDrains("w", 30.0))
    assert "3 handlers under way, 30 s for them; Ctrl-C once more ends it" in capsys.readouterr().err
    _Drain(TERMS)(WorkerDrains("w", 1.5))
    assert "no handler is under way" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--log-format xml", "a log format must be text or json"),
        ("--metrics-port 0 --metrics-host 192.0.2.1", "no metrics on 192.0.2.1"),
    ],
)
def test_what_makes_no_sense_is_refused(fails, shop, options, said):
    assert said in fails(2, "work", "shop_of_a_test:queue", *options.split())


def test_keys_that_are_none_are_refused_and_not_shown(fails, shop, monkeypatch):
    monkeypatch.setenv("PYWHEEL_KEYS", "a:hush")
    said = fails(2, "work", "shop_of_a_test:queue")
    assert ("PYWHEEL_KEYS" in said, "hush" in said) == (True, False)


# ---- reload ---------------------------------------------------------------------------------------------------------


def test_a_source_that_changes_comes_or_goes_is_told_once_and_looked_for_twice_a_second(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    now, source = 0.0, tmp_path / "shop" / "jobs.py"
    for folder in ("shop", ".venv", "node_modules"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "jobs.py").write_text("")
    sources = Sources()
    assert sources.changed() is None
    for change in (lambda: os.utime(source, (1, 1)), source.unlink, source.touch):
        for folder in (".venv", "node_modules"):
            os.utime(tmp_path / folder / "jobs.py", (now, now))
        change()
        assert sources.changed() is None
        now += 0.5
        assert sources.changed() == source
        now += 0.5
        assert sources.changed() is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("shop:queue --log-format xml", "a log format must be text or json"),
        ("shop:queue --processes 1001", "processes must be"),
        ("shop:queue --keep soon", "--keep"),
        ("shop", "'shop' names no queue: write it like shop.jobs:queue"),
        ("shop.py:queue", "'shop.py' is not a module: write shop:queue"),
    ],
)
def test_arguments_that_make_no_sense_end_a_reload_as_no_source_can_mend_them(
    fails, tmp_path, monkeypatch, arguments, said
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pywheel.cli.work.note", pytest.fail)  # that it waits for a change of the sources
    assert said in fails(2, "work", "--reload", *arguments.split())


@pytest.mark.parametrize(("store", "waits"), [("sqlit:///jobs.db", False), (None, True)])
def test_a_reload_waits_for_a_source_that_gives_an_address_but_not_if_the_command_line_gave_it(
    tmp_path, monkeypatch, store, waits
):
    def run(*_):
        raise BadAddress("did you mean sqlite:?")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pywheel.cli.work._supervisor", lambda *_: types.SimpleNamespace(run=run))
    monkeypatch.setattr(time, "sleep", sys.exit)  # it waits
    with pytest.raises(SystemExit if waits else BadAddress):
        _reloading("shop:queue", TERMS._replace(store=store))


def test_without_the_extra_of_its_metrics_it_says_so_before_it_starts_processes(fails, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    err = fails(2, "work", "no.such:queue", "--processes", 2, "--metrics-port", 0)
    assert err.count("\n") == 1
    assert "pip install 'pywheel-timer[telemetry]'" in err
