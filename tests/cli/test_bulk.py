"""Commands that change many jobs ask first, and say how many."""

import sys

import pytest

from pywheel import Fixed, StoreBusy
from pywheel.jobs import Counts
from pywheel.jobs.commands import Cancel, Delete, Purge
from pywheel.jobs.queries import GetPage
from pywheel.stores.sqlite.store import SqliteStore


def die(queue, topic, error):
    [job] = queue.reserve(topic, retry=Fixed(1, attempts=1))
    queue.nack(job, error=error)


def test_filters_are_those_of_the_client(says, queue):
    for n in range(3):
        queue.put("a", key=f"k{n}", delay=n * 3600 + 1)
    queue.put("b", key="dead")
    die(queue, "b", "HTTPError: 502")
    queue.put("c", "needle", key="first", delay=60, headers={"tenant": "a"})
    queue.put("c", "needle", key="second", delay=60, priority=5)
    queue.put("c", key="third")
    [job] = queue.reserve("c")
    worker = queue.jobs.history(job)[-1].worker
    for words, keys in {
        "--key k1": ["k1"], "-t a --due-from 30m": ["k1", "k2"], "--due-until 90m -t a": ["k0", "k1"],
        "--due-until -1d": [], "--due-from 2100-01-01T00:00:00Z": [], "--error 502": ["dead"],
        "--text needle": ["first", "second"], "--header tenant=a": ["first"], f"--worker {worker} -t c": ["third"],
        "--priority 5": ["second"],
    }.items():  # fmt: skip
        assert [record["key"] for record in says("list", *words.split())] == keys, words
    queue.ack(job)
    for words, number in {
        "cancel-many --text needle": 2, f"retry-many --worker {worker} --state done": 1, "delete-many --priority 5": 1,
    }.items():  # fmt: skip
        assert list(says(*words.split(), "-y").values()) == [number]


@pytest.mark.parametrize(
    ("command", "what", "number", "counts"),
    [
        ("cancel-many -t t", "cancelled", 3, Counts(cancelled=3, dead=2)),
        ("retry-many -t t", "retried", 2, Counts(delayed=5)),
        ("delete-many -t t --state delayed", "deleted", 3, Counts(dead=2)),
        ("purge -t t --state dead", "purged", 2, Counts(delayed=3)),
    ],
)
def test_many_are_changed_after_a_look_and_a_yes(says, call, fails, queue, command, what, number, counts):
    for _ in range(2):
        queue.put("t")
        die(queue, "t", "no")
    queue.put_many([queue.job("t") for _ in range(3)])
    queue.put("other")
    before = queue.topics.counts()
    assert says(*command.split(), "--dry-run") == {what: number, "dry_run": True}
    assert f"{number} jobs: give --yes" in fails(2, *command.split())
    assert queue.topics.counts() == before
    assert says(*command.split(), "--yes") == {what: number}
    assert queue.topics.counts() == {**before, "t": counts}
    assert call(*command.split(), "-y")[1] == f"0 {what}\n"


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_a_person_is_asked_with_the_number(call, queue, terminal, monkeypatch, answer):
    queue.put_many([queue.job("t") for _ in range(1_234)])
    asked = []
    monkeypatch.setattr("typer.confirm", lambda question, **words: asked.append(question) or answer)
    code, out, _ = call("cancel-many", "-t", "t")
    assert asked == ["cancel 1,234 jobs?"]
    assert (code, queue.topics.counts()["t"].cancelled) == ((0, 1_234) if answer else (1, 0))
    assert ("1234 cancelled" in out) is answer
    monkeypatch.setattr(type(sys.stdin), "isatty", lambda stream: False)  # a pipe, though the output is a terminal
    assert call("cancel-many", "-t", "t")[0] == (2 if not answer else 0)


def test_a_purge_by_age_counts_first_what_is_old_enough(says, queue):
    queue.put_many([queue.job("t") for _ in range(3)])
    for job in queue.reserve("t", 2):
        queue.ack(job)
    for words, number in {"--older-than 1h": 0, "--older-than 0.001": 2, "-t other": 0}.items():
        assert says("purge", *words.split(), "--dry-run")["purged"] == number


@pytest.mark.parametrize("command", ["cancel-many", "delete-many", "purge"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, StoreBusy])
def test_what_ends_a_change_of_many_leaves_word_how_many_were_changed(fails, queue, monkeypatch, command, error):
    queue.put_many([queue.job("t") for _ in range(60)])
    if command == "purge":
        for job in queue.reserve("t", 60):
            queue.ack(job)
    apply, done = SqliteStore.apply, []

    def applied(store, commands):
        if len(done) == 2:
            raise error("locked")
        done.extend(outcomes := apply(store, commands))
        return outcomes

    monkeypatch.setattr("pywheel.cli.bulk._BATCH", 10)
    monkeypatch.setattr("pywheel.client.jobs._PAGE", 1)
    monkeypatch.setattr(SqliteStore, "apply", applied)
    err = fails(130 if error is KeyboardInterrupt else 3, command, "--yes")
    [said] = [line for line in err.splitlines() if "before it ended" in line]
    assert "Traceback" not in err
    changed = {"cancel-many": "2 cancelled", "delete-many": "2 deleted", "purge": "20 purged"}[command]
    assert said == f"pywheel: {changed} before it ended; what was under way may be too"


def test_a_page_that_is_full_says_how_to_go_on(call, queue, terminal):
    queue.put_many([queue.job("t") for _ in range(3)])
    assert "--after 2" in call("list", "-n", 2)[2]
    assert call("list", "-n", 4)[2] == ""


def test_schedules_are_listed_paused_resumed_run_and_removed(says, call, fails, queue):
    queue.schedules.set("nightly", "report", cron="0 3 * * *", tz="Europe/Berlin")
    queue.schedules.set("often", "report", every="1m")
    nightly, often = says("schedules", "list")
    assert (nightly["cron"], nightly["tz"], often["every"]) == ("0 3 * * *", "Europe/Berlin", 60.0)
    assert (nightly["last"], nightly["outcome"]) == (None, None)
    for word, paused in (("pause", True), ("resume", False)):
        assert says("schedules", word, "often") == {"changed": True}
        assert [one["paused"] for one in says("schedules", "list")] == [False, paused]
    id = says("schedules", "run", "often")["id"]
    assert queue.get(id).headers["pywheel-schedule"] == "often"
    assert says("schedules", "remove", "often") == {"changed": True}
    assert call("schedules", "remove", "often")[0] == 1
    assert "no schedule 'often'" in fails(1, "schedules", "run", "often")
    assert call("schedules", "list")[1].splitlines()[1].startswith("nightly\t0 3 * * * Europe/Berlin\treport\t")


def end_one(queue):
    queue.put("t")
    queue.ack(*queue.reserve("t"))


def test_a_purge_ends_though_jobs_end_meanwhile(says, queue, meanwhile):
    end_one(queue)
    meanwhile("apply", Purge, lambda: end_one(queue), 500)
    assert says("purge", "--yes")["purged"] >= 1
    assert queue.topics.counts()["t"].done >= 1


def test_a_count_before_a_purge_ends_though_jobs_end_meanwhile(says, queue, meanwhile):
    end_one(queue)
    meanwhile("ask", GetPage, lambda: end_one(queue))
    assert says("purge", "--older-than", "0.001", "--dry-run")["purged"] <= 1


@pytest.mark.parametrize("command", ["cancel-many", "delete-many"])
def test_a_change_of_many_ends_though_jobs_are_put_meanwhile(says, queue, meanwhile, command):
    queue.put_many([queue.job("t") for _ in range(3)])
    meanwhile("apply", Cancel | Delete, lambda: queue.put("t"))
    assert list(says(command, "-t", "t", "--yes").values()) == [3]
    assert queue.topics.counts()["t"].delayed == 1
