"""Every command: what it prints, as text and as JSON, and its exit code."""

import io
import json
import sys

import pytest

from pywheel import JobQueue
from pywheel.cli.app import app, run

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


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
def queue(url):
    with JobQueue(url) as queue:
        yield queue


def test_put_and_show(says, call):
    id = says("put", "close", '{"order": 7}', "-d", "30m", "-k", "order-7", "--ttr", "5s", "--max-attempts", 3)["id"]
    record = says("show", id)
    assert (record["topic"], record["body"], record["key"], record["state"]) == (
        "close",
        '{"order": 7}',
        "order-7",
        "delayed",
    )
    assert (record["ttr"], record["max_attempts"]) == (5_000, 3)
    assert 0 < record["due"] - record["created"] <= 1_800_000  # the delay counts from the call, a moment before
    assert says("show", "order-7", "--topic", "close") == record
    code, out, _ = call("show", id)
    assert code == 0
    assert "order-7" in out


def test_put_reads_standard_input(says, monkeypatch, queue):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\x00")))
    id = says("put", "t", "-", "--traceparent", TRACE)["id"]
    assert queue.get(id).body == b"\xff\x00"
    record = says("show", id)
    assert record["body_base64"] == "/wA="
    assert record["trace_id"] == TRACE[3:35]


def test_put_at_a_time(says):
    id = says("put", "t", "--at", "2100-01-01T00:00:00+01:00")["id"]
    assert says("show", id)["due"] == 4_102_441_200_000


def test_cancel_reschedule_and_retry_say_no_by_exit_code(says, call):
    id = says("put", "t", "-d", "1h")["id"]
    before = says("show", id)["due"]
    assert says("reschedule", id, "-d", "2h") == {"changed": True}
    assert says("show", id)["due"] > before
    assert call("retry", id)[0] == 1
    assert says("cancel", id) == {"changed": True}
    code, out, _ = call("cancel", id, "--json")
    assert (code, json.loads(out)) == (1, {"changed": False})
    assert says("retry", id, "-d", "5s") == {"changed": True}
    assert call("cancel", 99)[0] == 1


def test_list_counts_and_history(says, call, queue):
    ids = [says("put", topic)["id"] for topic in ("a", "b", "a")]
    [job] = queue.reserve("a")
    queue.nack(job, error="[red]boom[/]")
    assert [record["id"] for record in says("list")] == ids
    assert [record["id"] for record in says("list", "-t", "a", "--after", ids[0], "-n", 1)] == [ids[2]]
    assert says("list", "--state", "dead") == []
    assert says("counts")["a"] == {"delayed": 2, "running": 0, "done": 0, "dead": 0, "cancelled": 0, "paused": False}
    [attempt] = says("history", ids[0])
    assert (attempt["outcome"], attempt["error"]) == ("failed", "[red]boom[/]")
    assert "[red]boom[/]" in call("history", ids[0])[1]
    assert "delayed" in call("list")[1]
    assert "delayed" in call("counts")[1]


def test_pause_resume_and_purge(says, queue):
    says("put", "t")
    assert says("pause", "t") == {"changed": True}
    assert says("counts")["t"]["paused"] is True
    assert says("resume", "t") == {"changed": True}
    [job] = queue.reserve("t")
    queue.ack(job)
    assert says("purge", "--older-than", "1h") == {"purged": 0}
    assert says("purge") == {"purged": 1}


def test_version_says_which_implementation(says, call):
    from pywheel import __version__, implementation

    assert says("version")["implementation"] == implementation
    assert f"pywheel {__version__} ({implementation})" in call("version")[1]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["put", "t", "-d", "soon"], 2),
        (["put", ""], 2),
        (["put", "t", "--at", "tomorrow"], 2),
        (["put", "t", "--at", "2030-01-01T00:00:00"], 2),
        (["put", "t", "--max-attempts", "0"], 2),
        (["put"], 2),
        (["sing"], 2),
        (["list", "--state", "asleep"], 2),
        (["list", "-n", "0"], 2),
        (["show", "seven"], 2),
        (["show", "7"], 1),
        (["history", "7"], 1),
        (["reschedule", "7"], 2),
        (["purge", "--state", "running"], 2),
        (["work", "nonsense"], 2),
        (["work", "no.such.module:queue"], 2),
        (["work", "json:loads"], 2),
        (["counts", "--store", "redis://localhost"], 3),
        (["counts", "--store", "sqlite:///no/such/file.db"], 3),
        (["put", "t", "--store", "sqlite:///no/such/folder/file.db"], 3),
    ],
    ids=str,
)
def test_bad_input_gets_one_line_and_an_exit_code(call, queue, arguments, code):
    got, out, err = call(*arguments)
    assert got == code
    assert out == ""
    assert err.startswith("pywheel: ")
    assert err.count("\n") == 1


def test_a_taken_key_is_a_no(call):
    assert call("put", "t", "-k", "k")[0] == 0
    code, _, err = call("put", "t", "-k", "k")
    assert code == 1
    assert "already" in err
    assert call("put", "t", "new", "-k", "k", "--replace")[0] == 0


def test_looking_creates_no_file(call, tmp_path):
    assert call("list")[0] == 3
    assert list(tmp_path.iterdir()) == []


def test_names_that_would_move_the_cursor_are_shown_harmless(call, queue):
    queue.put("t\x1b[2J", b"\x1b[31m", key="\a")
    out = call("list")[1]
    assert "\x1b" not in out
    assert "\a" not in out


def test_every_command_that_prints_has_json():
    without = {"work", "demo"}
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert ("as_json" in command.callback.__annotations__) is (name not in without), name
