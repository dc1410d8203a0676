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
        *((body, f"'{body}' is not JSON") for body in ("hello", "NaN", "[Infinity]", '{"n": -Infinity}')),
    ],
    ids=["nested", "digits", "text", "NaN", "Infinity", "-Infinity"],  # which Python reads, and other languages do not
)
def test_what_is_no_json_or_cannot_be_looked_at_is_put_as_text_alone(call, fails, queue, body, why):
    err = fails(2, "put", "t", body)
    assert (why in err, "--text" in err) == (True, True)
    assert ("is not JSON" in err) is ("is not JSON" in why)
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
    endless, huge = Endless(), tmp_path / "huge"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(endless)))
    said = f"pywheel: the body has more than {MAX_BODY} bytes: store it elsewhere, put its name\n"
    assert call("put", "t", "-") == (2, "", said)
    assert endless.read_bytes < 2 * MAX_BODY
    for size, code in ((1 << 41, 2), (MAX_BODY, 0)):
        with huge.open("wb") as file:
            file.truncate(size)
        assert call("put", "t", "--file", huge)[::2] == (code, said if code else "")
    assert queue.topics.counts()["t"].delayed == 1


def test_put_and_show(says, call):
    words = ("-d", "30m", "-k", "order-7", "--ttr", "5s", "--max-attempts", 3, "--priority", "-4")
    id = says("put", "close", '{"order": 7}', *words)["id"]
    record = says("show", id)
    wanted = {"topic": "close", "body": '{"order": 7}', "key": "order-7", "state": "delayed", "ttr": 5_000}
    assert {**wanted, "max_attempts": 3, "priority": -4}.items() <= record.items()
    assert record["due"] - record["created"] == 1_800_000
    assert says("show", "order-7", "--topic", "close") == record
    assert "order-7" in call("show", id)[1]
    at = says("put", "t", '"hello"', "--at", "2100-01-01T00:00:00+01:00")["id"]
    assert (says("show", at)["due"], says("show", at)["body"]) == (4_102_441_200_000, '"hello"')


def test_a_body_is_read_from_standard_input_or_a_file_as_it_is(says, call, monkeypatch, queue, tmp_path):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\x00")))
    id = says("put", "t", "-", "--traceparent", TRACE)["id"]
    record = says("show", id)
    assert (record["body_base64"], record["trace_id"]) == ("/wA=", TRACE[3:35])
    assert queue.get(says("put", "t", "-", "--text")["id"]).body == b"-"
    file = tmp_path / "photo"
    file.write_bytes(b"\xff\x00")
    assert queue.get(says("put", "t", "--file", file)["id"]).body == b"\xff\x00"
    assert call("put", "t", "7", "--file", file)[0] == 2


@pytest.mark.parametrize(
    ("delay", "expected"), [("5", 5_000), ("1.5", 1_500), ("-3", 0), ("-5s", 0), ("1h 30m", 5_400_000)]
)
def test_a_plain_number_is_seconds(says, delay, expected):
    record = says("show", says("put", "t", "--delay", delay, "--ttr", "7")["id"])
    assert abs(record["due"] - record["created"] - expected) <= 1
    assert record["ttr"] == 7_000


def test_spans_of_a_job_are_shown_with_their_unit(says, call):
    id = says("put", "t", "--ttr", "30s", "--expires", "1500ms")["id"]
    assert {"ttr\t30s", "expires\t1500ms"} <= {*call("show", id)[1].splitlines()}


def test_one_job_is_rescheduled_cancelled_retried_and_deleted(says, call):
    id = says("put", "t", "-d", "1h")["id"]
    before = says("show", id)["due"]
    for words in (("reschedule", id, "-d", "2h"), ("cancel", id), ("retry", id, "-d", "5s")):
        assert says(*words) == {"changed": True}
        if words[0] == "reschedule":
            assert says("show", id)["due"] > before
    assert says("delete", id) == {"changed": True}


def test_a_change_that_is_not_made_says_why(call, queue):
    id = queue.put("t", key="k")
    assert call("retry", id) == (1, f"job {id} is delayed\n", "")
    queue.reserve("t")
    for command in ("cancel", "retry", "delete"):
        assert call(command, id) == (1, f"job {id} is running\n", "")
    assert call("reschedule", "k", "-t", "t", "-d", "1h") == (1, "job 'k' of topic 't' is running\n", "")
    assert call("cancel", 99) == (1, "there is no job 99\n", "")
    assert json.loads(call("delete", 99, "--json")[1]) == {"changed": False, "reason": "not found"}
    queue.put("notify")
    missing = "there is no job 'k' of topic 'notfiy', did you mean notify?\n"
    for command in (("cancel",), ("reschedule", "-d", "1h"), ("retry",), ("delete",)):
        assert call(command[0], "k", "-t", "notfiy", *command[1:]) == (1, missing, "")
    for command in ("show", "history"):
        assert call(command, "k", "-t", "notfiy") == (1, "", f"pywheel: {missing}")
    assert call("cancel", "l", "-t", "notify") == (1, "there is no job 'l' of topic 'notify'\n", "")


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


def test_list_counts_and_history(says, call, queue):
    ids = queue.put_many([queue.job(topic) for topic in ("a", "b", "a")])
    [job] = queue.reserve("a")
    queue.nack(job, error="[red]boom[/]")
    assert [record["id"] for record in says("list")] == ids
    assert [record["id"] for record in says("list", "-t", "a", "--after", ids[0], "-n", 1)] == [ids[2]]
    assert says("list", "--state", "dead") == []
    assert says("counts")["a"] == {"delayed": 2, "running": 0, "done": 0, "dead": 0, "cancelled": 0, "paused": False}
    [attempt] = says("history", ids[0])
    assert (attempt["outcome"], attempt["error"]) == ("failed", "[red]boom[/]")
    for words, text in ((("history", ids[0]), "[red]boom[/]"), (("list",), "delayed"), (("counts",), "delayed")):
        assert text in call(*words)[1]


def test_a_history_shows_results_and_says_why_a_lost_attempt_has_no_error(says, call, queue):
    id = queue.put("t")
    [job] = queue.reserve("t")
    queue.store.apply([Ack(id, job.claims, b'{"a": "[red]"}')])
    [attempt] = says("history", id)
    assert (attempt["outcome"], attempt["result"]) == ("done", '{"a": "[red]"}')
    assert '{"a": "[red]"}' in call("history", id)[1]
    job = Job(1, "t", b"", due=1, created=1, ttr=1, max_attempts=1, claims=1, attempt=1, state=State.DEAD)
    [[lost]] = queue.store.apply([Import((Imported(job, (Attempt(1, 1, 1, 2, Outcome.LOST, "w", None),)),))])
    assert "its lease ended; its worker sent nothing" in call("history", lost)[1]


def test_a_key_is_taken_unless_the_put_replaces_and_stays_so_for_as_long_as_a_put_says(says, fails):
    id = says("put", "t", "-k", "k")["id"]
    assert "already" in fails(1, "put", "t", "-k", "k")
    assert says("put", "t", "7", "-k", "k", "--replace")["id"] == id
    says("cancel", id)
    error = fails(1, "put", "t", "-k", "k", "--dedupe-for", "10m")
    assert f"job {id} had the key 'k' and ended" in error
    assert "it is taken for 600 s" in error
    assert says("put", "t", "-k", "k")["id"] != id


def test_an_unknown_topic_is_not_paused_unless_asked(says, fails, queue):
    queue.put("notify")
    changes = ["pause", "resume", "limit --limit 1", *(f"{what}-many -y -t" for what in ("cancel", "retry", "delete"))]
    for words in changes:
        assert "'notfiy', did you mean notify?" in fails(1, *words.split(), "notfiy")
    assert queue.topics.limits("notify") is None
    assert "--create" in fails(1, "pause", "x")
    assert [topic.name for topic in queue.topics.list()] == ["notify"]
    assert [says("pause", "mail", *words)["changed"] for words in (["--create"], [])] == [True, False]
    assert says("counts")["mail"]["paused"] is True
    assert says("resume", "mail") == {"changed": True}


def test_an_unknown_topic_is_not_limited_unless_asked_and_its_limits_can_be_read_and_taken_back(says, fails, queue):
    assert "--create limits it all the same" in fails(1, "limit", "x", "--limit", "3")
    assert queue.topics.limits("x") is None
    wanted = {"topic": "x", "limits": {"limit": 3, "per": None, "rate": None}}
    assert says("limit", "x", "--limit", "3", "--create") == says("limit", "x") == wanted
    assert says("limit", "x", "--as-code") == {"topic": "x", "limits": None}


def test_a_topic_is_limited_looked_at_and_left_to_its_code(says, call, queue):
    queue.put("t")
    assert says("limit", "t") == {"topic": "t", "limits": None}
    for words, limit, per, rate in (
        (("--limit", "5", "--rate", "10/s burst 10"), 5, None, "10/s burst 10"),
        (("--limit", "1", "--per", ":"), 1, ":", None),
        (("--none",), None, None, None),
    ):
        wanted = {"limit": limit, "per": per, "rate": rate}
        assert says("limit", "t", *words) == says("limit", "t") == {"topic": "t", "limits": wanted}
        assert queue.topics.limits("t") == (limit, per, rate)
    assert call("limit", "t")[1] == "no limit\n"
    assert call("limit", "t", "--as-code")[1] == "as its code says\n"
    assert queue.topics.limits("t") is None


def test_a_job_a_line_is_put_a_thousand_at_a_time(call, queue, tmp_path, monkeypatch):
    file = tmp_path / "mails.jsonl"
    file.write_text("".join(f'{{"to": {n}}}\n' for n in range(2_500)))
    words = ("--lines", "--file", file, "--delay", "1h", "--header", "tenant=acme")
    assert call("put", "mail", *words) == (0, "2500\n", "")
    jobs = queue.jobs.list("mail", limit=3_000)
    assert [job.json()["to"] for job in jobs] == list(range(2_500))
    assert jobs[0].headers == {"tenant": "acme"}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo")))
    assert call("put", "note", "--lines", "--text") == (0, "2\n", "")
    assert [job.body for job in queue.jobs.list("note")] == [b"one", b"two"]


def test_long_lines_are_put_a_few_megabytes_at_a_time(fails, queue, tmp_path):
    """So that memory does not grow with their length."""
    file = tmp_path / "mails.jsonl"
    file.write_text(f'"{"x" * (MAX_BODY - 2)}"\n' * 6 + "oops\n")
    assert "go on with line 5" in fails(2, "put", "mail", "--lines", "--file", file)
    assert queue.topics.counts()["mail"].delayed == 4


def test_a_line_that_is_no_json_is_named_and_says_where_to_go_on(fails, queue, tmp_path):
    file = tmp_path / "mails.jsonl"
    file.write_text("1\n" * 1_200 + "oops\n")
    for words, *said in (
        ((), "line 1201: 'oops' is not JSON", "go on with line 1001"),
        (("--key", "k"), "--lines puts many jobs"),
        (("7",), "--lines puts many jobs"),
    ):
        err = fails(2, "put", "mail", *words, "--lines", "--file", file)
        assert [text for text in said if text not in err] == []
        assert queue.topics.counts()["mail"].delayed == 1_000


@pytest.mark.parametrize(
    "line", ["\ufeff1".encode(), b"1\0", "1".encode("utf-16"), b'"\xff"', b'"\xed\xa0\x80"'], ids=repr
)
def test_a_line_in_another_encoding_than_utf_8_without_a_mark_is_refused_as_no_json(fails, queue, tmp_path, line):
    file = tmp_path / "mails.jsonl"
    file.write_bytes(line + b"\n")
    assert "line 1: " in (said := fails(2, "put", "mail", "--lines", "--file", file))
    assert "is not JSON" in said
    assert queue.topics.counts() == {}


def test_a_job_has_headers_and_where_it_goes(call, queue):
    call("put", "notify", "1", "--to", "https://shop.example/hook", "-H", "tenant=acme", "-H", "region=eu=1")
    [job] = queue.jobs.list("notify")
    assert job.headers == {"tenant": "acme", "region": "eu=1", "to": "https://shop.example/hook"}
