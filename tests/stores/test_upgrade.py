"""Two versions of pywheel on one store: the older one goes on if the newer one allows it, and else gets an error."""

import subprocess
import sys
import threading

import pytest

from pywheel import JobQueue, StoreTooNew
from pywheel.jobs.queries import CountJobs
from pywheel.stores import open
from pywheel.stores.schema import Schema, of_migrations
from pywheel.stores.sqlite.connection import MIGRATIONS
from tests.jobs.waiting import until, working


class Newer:
    """A worker of the next version, once it has upgraded the store."""

    def __init__(self, url, least):
        arguments = [sys.executable, "-m", "tests.stores.newer_child", url, least]
        self._process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.handled = []
        assert self._process.stdout.readline() == "upgraded\n"
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.handled.append(line.strip())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._reader.join(60)
        self._process.stdout.close()


def least(url):
    """The version that every pywheel knows which may go on beside the next one."""
    return str(len(MIGRATIONS)) if url.startswith("sqlite") else "1"


@pytest.mark.stress
def test_old_workers_go_on_while_new_ones_come(shared_url):
    handled = []
    with JobQueue(shared_url) as old:
        old.handler("t")(lambda job: handled.append(job.json()))
        before = [f"before {n}" for n in range(5)]
        old.put_many(old.job("t", body) for body in before)
        with working(old):
            until(lambda: len(handled) == 5)
            with Newer(shared_url, least(shared_url)) as newer:
                beside = [f"beside {n}" for n in range(20)]
                for body in beside:
                    old.put("t", body)
                until(lambda: len(handled) + len(newer.handled) == 35)
            old.put("t", "after")
            until(lambda: "after" in handled)
        everything = [*before, *beside, "after", *(f"new {n}" for n in range(10))]
        assert sorted(handled + newer.handled) == sorted(everything)
        assert old.topics.counts()["t"].done == 36
    with open(shared_url) as again:  # an old one that starts only now
        assert again.ask(CountJobs())["t"].done == 36
        assert again.verify() == []


@pytest.mark.stress
def test_a_change_that_an_old_one_cannot_go_with_is_told(shared_url):
    with JobQueue(shared_url) as old:
        old.put("t", delay="1h")
        with Newer(shared_url, ""):
            pass
        if shared_url.startswith("sqlite"):
            with pytest.raises(StoreTooNew, match="install a newer one"):
                old.put("t")
    with pytest.raises(StoreTooNew, match=r"has version \d, this pywheel knows \d: install a newer one"):
        open(shared_url)


@pytest.mark.stress
def test_a_new_store_is_of_the_newest_version_at_once(shared_url):
    with Newer(shared_url, least(shared_url)) as newer, JobQueue(shared_url) as old:
        until(lambda: len(newer.handled) == 10)
        until(lambda: old.topics.counts()["t"].done == 10)
    with Newer(shared_url, "") as another:  # the store is of this version already: nothing is changed
        until(lambda: len(another.handled) == 10)
    with open(shared_url) as old:
        assert old.ask(CountJobs())["t"].done == 20


def test_the_last_migration_says_with_what_it_goes():
    assert of_migrations(["", "-- Words.\n-- least: 1\nCREATE"]) == Schema(2, 1)
    assert of_migrations(["", "-- least: 1\n", "CREATE -- least: 2"]) == Schema(3, 3)
    Schema(3, 2).refuse(2, "here")
    with pytest.raises(StoreTooNew, match="here has version 3, this pywheel knows 1"):
        Schema(3, 2).refuse(1, "here")
