"""An operator's day on the command line: a file of jobs, failures, a worker that is killed, repair, a backup."""

import contextlib
import json
import re
import sqlite3
from collections import Counter

from tests.jobs.waiting import until

JOBS = 3_000
PROGRAM = '''
"""Mails. Every tenth address is wrong until somebody mends that, every hundredth is slow.

The last thousand waits until a worker was killed.
"""

import os
import time
from pathlib import Path

from pywheel import JobQueue, Ladder, NotNow

queue = JobQueue("sqlite:///jobs.db")


@queue.handler("mail", retry=Ladder("10ms", "10ms"), ttr="2s")
def mail(job):
    number = job.json()["n"]
    if number >= 2_000 and not Path("killed").exists():
        raise NotNow("50ms")
    if number % 100 == 0:
        time.sleep(0.05)
    if number % 10 == 3 and not Path("mended").exists():
        raise ConnectionError(f"mailbox {number} is full")
    with open("sent", "a") as sent:
        sent.write(f"{number}\\n")


@queue.every("1h", name="report")
def report():
    with open("reports", "a") as reports:
        reports.write("report\\n")
'''
WORK = ("-m", "pywheel.cli", "work", "mails:queue", "--keep", "forever")


def test_a_day(start, pywheel, tmp_path):
    (tmp_path / "mails.py").write_text(PROGRAM)
    (tmp_path / "mails.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(JOBS)))
    where = {"PYWHEEL_STORE": f"sqlite:///{tmp_path}/jobs.db"}

    def run(*arguments, **options):
        return pywheel(*arguments, **where, **options)

    def books():
        with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
            of_mail = "topic = (SELECT id FROM topic WHERE name = 'mail')"
            text = f"SELECT state, count(*) FROM finished WHERE {of_mail} GROUP BY state"
            ended = dict(connection.execute(text).fetchall())
            [[live]] = connection.execute(f"SELECT count(*) FROM job WHERE {of_mail}").fetchall()
            return live, ended.get(0, 0), ended.get(1, 0), ended.get(2, 0)

    # In the morning: a file of jobs, and some by hand.
    assert f"{JOBS}" in run("put", "mail", "--lines", "--file", "mails.jsonl", "-H", "batch=1")
    id = int(run("put", "mail", '{"n": 1}', "--delay", "2h", "--key", "by-hand"))
    assert "by-hand" in run("show", id)
    run("reschedule", "by-hand", "--topic", "mail", "--delay", "3h")
    run("cancel", "by-hand", "--topic", "mail")
    run("cancel", "by-hand", "--topic", "mail", code=1)
    assert "mail" in run("retry-many", "-t", "mial", "--yes", code=1)

    # A worker is killed in the middle; the next one takes what it held.
    worker = start(*WORK, **where)
    until(lambda: books()[1] > JOBS // 10)
    worker.kill()
    assert books()[0] >= JOBS - 2_000
    (tmp_path / "killed").touch()
    worker = start(*WORK, **where)
    dead = JOBS // 10
    until(lambda: books() == (0, JOBS - dead, 1, dead))

    # The dead jobs and their errors; then the mailboxes are mended, and the jobs are retried.
    assert "is full" in run("list", "--topic", "mail", "--state", "dead")
    [first] = re.findall(r"\d+", run("list", "--topic", "mail", "--state", "dead", "--limit", "1", "--json"))[:1]
    assert "ConnectionError" in run("history", first)
    run("pause", "mail")
    (tmp_path / "mended").touch()
    assert str(dead) in run("retry-many", "-t", "mail", "--error", "is full", "--dry-run")
    assert str(dead) in run("retry-many", "-t", "mail", "--error", "is full", "--yes")
    assert books()[0] == dead
    run("resume", "mail")
    until(lambda: books() == (0, JOBS, 1, 0))

    # A report out of its turn, a look at who works, a backup beside it.
    run("schedules", "run", "report")
    until((tmp_path / "reports").exists)
    assert json.loads(run("workers", "--json"))
    run("backup", "backup.db")
    assert run("counts", "--json") == pywheel("counts", "--json", PYWHEEL_STORE=f"sqlite:///{tmp_path}/backup.db")
    assert worker.stop() == 0, worker.said

    # In the evening: all is sound. Each mail was sent, and none but those of the killed worker twice.
    sent = [int(line) for line in (tmp_path / "sent").read_text().split()]
    assert set(sent) == set(range(JOBS))
    assert Counter(sent).most_common(1)[0][1] <= 2
    assert len(sent) < JOBS * 1.1
    run("check")
    run("verify")
    assert str(JOBS) in run("purge", "-t", "mail", "--yes")
    assert books() == (0, 0, 1, 0)
