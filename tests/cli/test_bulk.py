"""Commands that change many jobs ask first, and say how many."""

import sys

import pytest

from pywheel import Fixed, StoreBusy
from pywheel.jobs import Counts
from pywheel.stores.sqlite.store import SqliteStore


def die(queue, topic, error):
    [job] = queue.reserve(topic, retry=Fixed(1, attempts=1))
    queue.nack(job, error=error)


def test_filters_are_those_of_the_client(says, queue):
    for n in range(3):
        queue.put("a", key=f"k{n}", delay=n * 3600)
    queue.put("b")
    die(queue, "b", "HTTPError: 502")
    assert [record["key"] for record in says("list", "--key", "k1")] == ["k1"]
    assert [record["key"] for record in says("list", "-t", "a", "--due-from", "30m")] == ["k1", "k2"]
    assert [record["key"] for record in says("list", "--due-until", "90m", "-t", "a")] == ["k0", "k1"]
    assert says("list", "--due-until", "-1d") == []
    assert says("list", "--due-from", "2100-01-01T00:00:00Z") == []
    assert [record["topic"] for record in says("list", "--error", "502")] == ["b"]


def test_jobs_are_found_and_changed_by_body_header_worker_and_priority(says, queue):
    queue.put("a", "needle", key="first", delay=60, headers={"tenant": "a"})
    queue.put("a", "needle", key="second", delay=60, priority=5)
    queue.put("a", key="third")
    [job] = queue.reserve("a")
    worker = queue.jobs.history(job)[-1].worker[:5]
    for words, keys in {
        ("--text", "needle"): ["first", "second"], ("--header", "tenant=a"): ["first"], ("--worker", worker): ["third"],
        ("--priority", "5"): ["second"],
    }.items():  # fmt: skip
        assert [record["key"] for record in says("list", *words)] == keys
    queue.ack(job)
    said = [
        says("cancel-many", "--text", "needle", "--yes"),
        says("retry-many", "--worker", worker, "--state", "done", "-y"),
        says("delete-many", "--priority", "5", "-y"),
    ]
    assert [next(iter(one.values())) for one in said] == [2, 1, 1]


@pytest.mark.parametrize(
    ("command", "what", "counts"),
    [
        (["cancel-many", "-t", "t"], "cancelled", Counts(cancelled=3, dead=2)),
        (["retry-many", "-t", "t"], "retried", Counts(delayed=5)),
        (["delete-many", "-t", "t", "--state", "delayed"], "deleted", Counts(dead=2)),
        (["purge", "-t", "t", "--state", "dead"], "purged", Counts(delayed=3)),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_many_are_changed_after_a_look_and_a_yes(says, call, queue, command, what, counts):
    for _ in range(2):
        queue.put("t")
        die(queue, "t", "no")
    queue.put_many([queue.job("t") for _ in range(3)])
    queue.put("other")
    before = queue.topics.counts()
    said = says(*command, "--dry-run")
    count = said[what]
    assert said == {what: count, "dry_run": True}
    assert count == {"cancelled": 3, "deleted": 3}.get(what, 2)
    code, out, err = call(*command)
    assert (code, out) == (2, "")
    assert f"{count} jobs: give --yes" in err
    assert queue.topics.counts() == before
    assert says(*command, "--yes") == {what: count}
    assert queue.topics.counts() == {**before, "t": counts}
    assert call(*command, "-y")[1] == f"0 {what}\n"


@pytest.mark.parametrize("answer", ["y\n", "n\n"])
def test_on_a_terminal_a_person_is_asked_with_the_number(call, queue, terminal, monkeypatch, answer):
    queue.put_many([queue.job("t") for _ in range(1_234)])
    asked = []
    monkeypatch.setattr("typer.confirm", lambda question, **words: asked.append(question) or answer == "y\n")
    code, out, _ = call("cancel-many", "-t", "t")
    assert asked == ["cancel 1,234 jobs?"]
    assert (code, queue.topics.counts()["t"].cancelled) == ((0, 1_234) if answer == "y\n" else (1, 0))
    assert ("1234 cancelled" in out) is (answer == "y\n")


def test_a_purge_by_age_counts_first_what_is_old_enough(says, queue):
    queue.put_many([queue.job("t") for _ in range(3)])
    for job in queue.reserve("t", 2):
        queue.ack(job)
    assert says("purge", "--older-than", "1h", "--dry-run")["purged"] == 0
    assert says("purge", "--older-than", "0.001", "--dry-run")["purged"] == 2
    assert says("purge", "--dry-run", "-t", "other")["purged"] == 0


@pytest.mark.parametrize("command", ["cancel-many", "delete-many", "purge"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, StoreBusy])
def test_what_ends_a_change_of_many_leaves_word_how_many_were_changed(call, queue, monkeypatch, command, error):
    queue.put_many([queue.job("t") for _ in range(600)])
    if command == "purge":
        for job in queue.reserve("t", 600):
            queue.ack(job)
    apply, done = SqliteStore.apply, []

    def applied(store, commands):
        if len(done) == 2:
            raise error("locked")
        done.extend(outcomes := apply(store, commands))
        return outcomes

    monkeypatch.setattr("pywheel.cli.bulk._BATCH", 100)
    monkeypatch.setattr("pywheel.client.jobs._PAGE", 1)
    monkeypatch.setattr(SqliteStore, "apply", applied)
    code, out, err = call(command, "--yes")
    assert (code, out) == (130 if error is KeyboardInterrupt else 3, "")
    [said] = [line for line in err.splitlines() if "before it ended" in line]
    assert "Traceback" not in err
    changed = {"cancel-many": "2 cancelled", "delete-many": "2 deleted", "purge": "200 purged"}[command]
    assert said == f"pywheel: {changed} before it ended; what was under way may be too"


def test_many_in_a_pipe_is_refused_though_the_output_is_a_terminal(call, queue, terminal, monkeypatch):
    queue.put("t")
    monkeypatch.setattr(type(sys.stdin), "isatty", lambda stream: False)
    assert call("cancel-many")[0] == 2


def test_a_page_that_is_full_says_how_to_go_on(call, queue, terminal):
    queue.put_many([queue.job("t") for _ in range(3)])
    assert "--after 2" in call("list", "-n", 2)[2]
    assert call("list", "-n", 4)[2] == ""


def test_schedules_are_listed_paused_resumed_run_and_removed(says, call, queue):
    queue.schedules.set("nightly", "report", cron="0 3 * * *", tz="Europe/Berlin")
    queue.schedules.set("often", "report", every="1m")
    nightly, often = says("schedules", "list")
    assert (nightly["cron"], nightly["tz"]) == ("0 3 * * *", "Europe/Berlin")
    assert (nightly["last"], nightly["outcome"]) == (None, None)
    assert often["every"] == 60.0
    assert says("schedules", "pause", "often") == {"changed": True}
    assert [one["paused"] for one in says("schedules", "list")] == [False, True]
    assert says("schedules", "resume", "often") == {"changed": True}
    id = says("schedules", "run", "often")["id"]
    assert queue.get(id).headers["pywheel-schedule"] == "often"
    assert says("schedules", "remove", "often") == {"changed": True}
    assert call("schedules", "remove", "often")[0] == 1
    code, _, err = call("schedules", "run", "often")
    assert code == 1
    assert "no schedule 'often'" in err
    code, out, _ = call("schedules", "list")
    assert out.splitlines()[1].startswith("nightly\t0 3 * * * Europe/Berlin\treport\t")
