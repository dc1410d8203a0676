"""Every command: what it prints, as text and as JSON, and its exit code."""

import io
import json
import sys

import pytest

from pywheel import State
from pywheel.client.program import MAX_BODY
from pywheel.jobs.commands import Ack, Import
from pywheel.jobs.job import Attempt, Imported, Job, Outcome

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("[" * 100_000 + "]" * 100_000, "is nested too deep to be looked at"),
        ("1" * 6_000, "has a number of too many digits to be looked at"),
        *((body, f"'{body}' is no JSON") for body in ("hello", "NaN", "[Infinity]", '{"n": -Infinity}')),
    ],
    ids=["nested", "digits", "text", "NaN", "Infinity", "-Infinity"],  # which Python reads, and other languages do not
)
def test_what_is_no_json_or_cannot_be_looked_at_is_put_as_text_alone(call, queue, body, why):
    code, out, err = call("put", "t", body)
    assert (code, out) == (2, "")
    assert why in err
    assert "--text" in err
    assert ("is no JSON" in err) is ("is no JSON" in why)
    assert call("put", "t", body, "--text")[0] == 0
    assert [job.body for job in queue.jobs.list()] == [body.encode()]


class Endless(io.RawIOBase):
    """Bytes without end, counted."""

    read_bytes = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.read_bytes += len(buffer)
        assert self.read_bytes < 100 * MAX_BODY, "it reads for ever"
        return len(buffer)


def test_a_body_without_end_is_read_up_to_the_limit_only(call, queue, tmp_path, monkeypatch):
    endless = Endless()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(endless)))
    refused = call("put", "t", "-")
    assert (refused[0], refused[1]) == (2, "")
    assert refused[2] == f"pywheel: the body has more than {MAX_BODY} bytes: store it elsewhere, put its name\n"
    assert endless.read_bytes < 2 * MAX_BODY
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(1 << 41)
    assert call("put", "t", "--file", huge) == refused
    with huge.open("wb") as file:
        file.truncate(MAX_BODY)
    assert call("put", "t", "--file", huge)[0] == 0
    assert queue.topics.counts()["t"].delayed == 1


def test_put_and_show(says, call):
    words = ("-d", "30m", "-k", "order-7", "--ttr", "5s", "--max-attempts", 3, "--priority", "-4")
    id = says("put", "close", '{"order": 7}', *words)["id"]
    record = says("show", id)
    wanted = {"topic": "close", "body": '{"order": 7}', "key": "order-7", "state": "delayed", "ttr": 5_000}
    assert {**wanted, "max_attempts": 3, "priority": -4}.items() <= record.items()
    assert 0 < record["due"] - record["created"] <= 1_800_000  # the delay counts from the call, a moment before
    assert says("show", "order-7", "--topic", "close") == record
    assert "order-7" in call("show", id)[1]
    at = says("put", "t", '"hello"', "--at", "2100-01-01T00:00:00+01:00")["id"]
    assert (says("show", at)["due"], says("show", at)["body"]) == (4_102_441_200_000, '"hello"')


def test_put_reads_standard_input(says, monkeypatch, queue):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\x00")))
    id = says("put", "t", "-", "--traceparent", TRACE)["id"]
    assert queue.get(id).body == b"\xff\x00"
    record = says("show", id)
    assert record["body_base64"] == "/wA="
    assert record["trace_id"] == TRACE[3:35]
    assert queue.get(says("put", "t", "-", "--text")["id"]).body == b"-"


@pytest.mark.parametrize(
    ("delay", "expected"), [("5", 5_000), ("1.5", 1_500), ("-3", 0), ("-5s", 0), ("1h 30m", 5_400_000)]
)
def test_a_plain_number_is_seconds(says, delay, expected):
    record = says("show", says("put", "t", "--delay", delay, "--ttr", "7")["id"])
    assert abs(record["due"] - record["created"] - expected) <= 1
    assert record["ttr"] == 7_000


def test_an_option_before_the_command_is_refused_with_its_place(call, url):
    code, _, err = call("--store", url, "counts")
    assert code == 2
    assert "No such option: --store" in err
    assert "it follows the command: pywheel put --store" in err
    assert call("--sotre", url, "counts")[2] == "pywheel: No such option: --sotre: `pywheel --help` says more\n"


def test_a_file_is_put_as_it_is(says, call, queue, tmp_path):
    file = tmp_path / "photo"
    file.write_bytes(b"\xff\x00")
    assert queue.get(says("put", "t", "--file", file)["id"]).body == b"\xff\x00"
    assert call("put", "t", "--file", tmp_path / "missing")[0] == 2
    assert call("put", "t", "7", "--file", file)[0] == 2


def test_cancel_reschedule_and_retry_say_no_by_exit_code(says, call):
    id = says("put", "t", "-d", "1h")["id"]
    before = says("show", id)["due"]
    assert says("reschedule", id, "-d", "2h") == {"changed": True}
    assert says("show", id)["due"] > before
    assert call("retry", id)[0] == 1
    assert says("cancel", id) == {"changed": True}
    code, out, _ = call("cancel", id, "--json")
    assert (code, json.loads(out)) == (1, {"changed": False, "reason": "cancelled"})
    assert says("retry", id, "-d", "5s") == {"changed": True}
    assert call("cancel", 99)[0] == 1


def test_a_waiting_job_is_edited_and_a_running_one_is_not(says, call, queue):
    id = says("put", "t", '{"n": 1}', "-d", "1h", "-k", "k")["id"]
    before = queue.get(id)
    assert says("edit", id, '{"n": 2}', "--priority", 5, "-H", "a=b") == {"changed": True}
    job = before._replace(body=b'{"n": 2}', priority=5, headers={"a": "b"}, claims=1)
    assert queue.get(id) == job
    assert call("edit", "k", "words", "--text", "-t", "t", "--ttr", "7s", "--max-attempts", 2) == (0, "edited\n", "")
    assert queue.get(id) == job._replace(body=b"words", ttr=7_000, max_attempts=2, claims=2)
    assert says("edit", id, "-d", "0s") == {"changed": True}
    queue.reserve("t")
    assert call("edit", id, "null") == (1, f"job {id} is running\n", "")
    assert call("edit", "k", "null", "-t", "other")[0] == 1


def test_a_change_that_is_not_made_says_why(says, call, queue):
    id = says("put", "t", "-k", "k")["id"]
    assert call("retry", id) == (1, f"job {id} is delayed\n", "")
    queue.reserve("t")
    for command in ("cancel", "retry", "delete"):
        assert call(command, id) == (1, f"job {id} is running\n", "")
    assert call("reschedule", "k", "-t", "t", "-d", "1h") == (1, "job 'k' of topic 't' is running\n", "")
    assert call("cancel", 99) == (1, "there is no job 99\n", "")
    assert json.loads(call("delete", 99, "--json")[1]) == {"changed": False, "reason": "not found"}
    assert says("delete", says("put", "t")["id"]) == {"changed": True}


def test_a_misspelt_topic_of_a_job_is_told(says, call):
    says("put", "notify", "-k", "k")
    missing = "there is no job 'k' of topic 'notfiy', did you mean notify?\n"
    for command in (("cancel",), ("reschedule", "-d", "1h"), ("retry",), ("delete",)):
        assert call(command[0], "k", "-t", "notfiy", *command[1:]) == (1, missing, "")
    for command in ("show", "history"):
        assert call(command, "k", "-t", "notfiy") == (1, "", f"pywheel: {missing}")
    assert call("cancel", "l", "-t", "notify") == (1, "there is no job 'l' of topic 'notify'\n", "")


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


def test_a_history_says_why_a_lost_attempt_has_no_error(call, queue):
    job = Job(1, "t", b"", due=1, created=1, ttr=1, max_attempts=1, claims=1, attempt=1, state=State.DEAD)
    lost = Attempt(1, 1, 1, 2, Outcome.LOST, "w", None)
    [id] = queue.store.apply([Import((Imported(job, (lost,)),))])[0]
    assert "its lease ended; its worker sent nothing" in call("history", id)[1]


def test_a_history_shows_results(says, call, queue):
    id = says("put", "t")["id"]
    [job] = queue.reserve("t")
    queue.store.apply([Ack(id, job.claims, b'{"a": "[red]"}')])
    [attempt] = says("history", id)
    assert (attempt["outcome"], attempt["result"]) == ("done", '{"a": "[red]"}')
    assert '{"a": "[red]"}' in call("history", id)[1]


def test_a_key_is_taken_unless_the_put_replaces_and_stays_so_for_as_long_as_a_put_says(says, call):
    id = says("put", "t", "-k", "k")["id"]
    code, _, error = call("put", "t", "-k", "k")
    assert (code, "already" in error) == (1, True)
    assert says("put", "t", "7", "-k", "k", "--replace")["id"] == id
    says("cancel", id)
    code, _, error = call("put", "t", "-k", "k", "--dedupe-for", "10m")
    assert code == 1
    assert f"job {id} had the key 'k' and ended" in error
    assert "it is taken for 600 s" in error
    assert says("put", "t", "-k", "k")["id"] != id


def test_an_unknown_topic_is_not_paused_unless_asked(says, call, queue):
    says("put", "notify")
    code, out, err = call("pause", "notfiy")
    assert (code, out) == (1, "")
    assert "did you mean notify?" in err
    assert "--create" in call("pause", "x")[2]
    assert call("resume", "notfiy")[0] == 1
    assert [topic.name for topic in queue.topics.list()] == ["notify"]
    assert says("pause", "mail", "--create") == {"changed": True}
    assert says("pause", "mail") == {"changed": False}
    assert says("counts")["mail"]["paused"] is True
    assert says("resume", "mail") == {"changed": True}


def test_a_topic_is_limited_looked_at_and_left_to_its_code(says, call, queue):
    says("put", "t")
    assert says("limit", "t") == {"topic": "t", "limits": None}
    for words, said in {
        ("--limit", "5", "--rate", "10/s burst 10"): (5, None, "10/s burst 10"),
        ("--limit", "1", "--per", ":"): (1, ":", None),
        ("--none",): (None, None, None),
    }.items():
        wanted = dict(zip(("limit", "per", "rate"), said, strict=True))
        assert says("limit", "t", *words) == says("limit", "t") == {"topic": "t", "limits": wanted}
        assert queue.topics.limits("t") == said
    assert call("limit", "t")[1] == "no limit\n"
    assert call("limit", "t", "--as-code")[1] == "as its code says\n"
    assert queue.topics.limits("t") is None


def test_limits_that_make_no_sense_are_refused(call, queue):
    queue.put("notify")
    for words, why in {
        ("--limit", "0"): "limit must be a whole number from 1",
        ("--per", ":"): "--per says of which group --limit is: give both",
        ("--rate", "soon"): "rate is text such as '100/m'",
        ("--limit", "1", "--none"): "give --limit and --rate, or --none, or --as-code",
        ("--none", "--as-code"): "give --limit and --rate, or --none, or --as-code",
    }.items():
        code, out, error = call("limit", "notify", *words)
        assert (code, out) == (2, "")
        assert why in error
    code, _, error = call("limit", "notfiy", "--limit", "1")
    assert code == 1
    assert "did you mean notify?" in error
    assert queue.topics.limits("notify") is None


def test_version_says_which_implementation(call):
    from pywheel import __version__, implementation

    assert f"pywheel {__version__} ({implementation})" in call("--version")[1]


def test_looking_creates_no_file(call, tmp_path):
    assert call("list")[0] == 3
    assert list(tmp_path.iterdir()) == []


def test_a_job_a_line_is_put_a_thousand_at_a_time(call, queue, tmp_path, monkeypatch):
    file = tmp_path / "mails.jsonl"
    file.write_text("".join(f'{{"to": {n}}}\n' for n in range(2_500)))
    assert call("put", "mail", "--lines", "--file", file, "--delay", "1h", "--header", "tenant=acme") == (
        0,
        "2500\n",
        "",
    )
    jobs = queue.jobs.list("mail", limit=3_000)
    assert [job.json()["to"] for job in jobs] == list(range(2_500))
    assert jobs[0].headers == {"tenant": "acme"}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo")))
    assert call("put", "note", "--lines", "--text") == (0, "2\n", "")
    assert [job.body for job in queue.jobs.list("note")] == [b"one", b"two"]


def test_a_line_that_is_no_json_is_named_and_says_where_to_go_on(call, queue, tmp_path):
    file = tmp_path / "mails.jsonl"
    file.write_text("1\n" * 1_200 + "oops\n")
    code, out, err = call("put", "mail", "--lines", "--file", file)
    assert (code, out) == (2, "")
    assert "line 1201: 'oops' is no JSON" in err
    assert "go on with line 1001" in err
    assert queue.topics.counts()["mail"].delayed == 1_000
    for wrong in (("--key", "k"), ("7",)):
        code, _, err = call("put", "mail", *wrong, "--lines", "--file", file)
        assert code == 2
        assert "--lines puts many jobs" in err


def test_a_job_has_headers_and_where_it_goes(call, queue):
    call("put", "notify", "1", "--to", "https://shop.example/hook", "-H", "tenant=acme", "-H", "region=eu=1")
    [job] = queue.jobs.list("notify")
    assert job.headers == {"tenant": "acme", "region": "eu=1", "to": "https://shop.example/hook"}
    code, _, err = call("put", "notify", "1", "-H", "tenant")
    assert code == 2
    assert "--header is name=value, not 'tenant'" in err


@pytest.mark.parametrize("command", ["cancel-many", "retry-many", "delete-many"])
def test_a_change_of_many_says_that_there_is_no_such_topic(call, queue, command):
    queue.put("mail")
    code, _, err = call(command, "--topic", "mial", "--yes")
    assert code == 1
    assert "there is no topic 'mial', did you mean mail?" in err
