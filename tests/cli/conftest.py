"""Commands within this process: quick, and with readable streams."""

import json
import sys

import pytest

from pywheel import JobQueue
from pywheel.cli.app import run
from pywheel.stores.sqlite.store import SqliteStore
from tests.cli.running import running


@pytest.fixture
def url(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/jobs.db"
    monkeypatch.setenv("PYWHEEL_STORE", url)
    return url


@pytest.fixture
def call(url, monkeypatch, capsys):
    """Run a command; return exit code, output, errors."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["pywheel", *map(str, arguments)])
        code = run()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def says(call):
    """Run a command that succeeds, with --json; return what it says."""

    def says(*arguments):
        code, out, err = call(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return says


@pytest.fixture
def fails(call):
    """Run a command that ends with this exit code and prints nothing; return its complaint."""

    def fails(code, *arguments):
        found, out, err = call(*arguments)
        assert (found, out) == (code, ""), err
        return err

    return fails


@pytest.fixture
def meanwhile(monkeypatch):
    """Let something happen whenever a store has answered commands or queries of a kind; fail if they have no end."""

    def meanwhile(method, kind, happens, most=50):
        real, answered = getattr(SqliteStore, method), []

        def answer(store, asked):
            result = real(store, asked)
            if any(isinstance(each, kind) for each in (asked if method == "apply" else [asked])):
                answered.append(asked)
                assert len(answered) < most
                happens()
            return result

        monkeypatch.setattr(SqliteStore, method, answer)

    return meanwhile


@pytest.fixture
def queue(url):
    with JobQueue(url) as queue:
        yield queue


@pytest.fixture
def work(tmp_path):
    """Run ``pywheel work`` with the source of a program, in a process of its own."""

    def work(source, *arguments, **variables):
        (tmp_path / "shop.py").write_text(source)
        return running("work", "shop:queue", *arguments, folder=tmp_path, **variables)

    return work


@pytest.fixture
def terminal(monkeypatch, capsys):
    """A terminal of 100 columns on all three streams."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    for kind in {type(sys.stdin), type(sys.stdout), type(sys.stderr)}:
        monkeypatch.setattr(kind, "isatty", lambda stream: True, raising=False)
