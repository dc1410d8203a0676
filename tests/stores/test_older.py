"""A store that an earlier pywheel has made is upgraded, and all is there. `older/take.py` takes such stores."""

import json
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

from pywheel import JobExists, StoreBusy
from pywheel.jobs import NewJob, Outcome, State
from pywheel.jobs import commands as c
from pywheel.jobs.commands import Terms
from pywheel.jobs.limits import Limits
from pywheel.stores import Filter, open
from pywheel.testing import ManualClock
from tests.jobs.waiting import until
from tests.stores.older.dumps import DUMPS
from tests.stores.older.fill import HOUR, plain
from tests.stores.older.take import STORES, migrations

NAMES = sorted(file.stem for file in STORES.glob("*.json"))
OLDEST = ["sqlite-3", "postgres-1", "mariadb-1", "redis-1", "redis-1-of-4"]
RELEASED = ["sqlite-8", "postgres-4", "mariadb-4"]
TERMS = Terms(1_000, 3)
SRC = STORES.parents[3] / "src"


class Older:
    """A store that an earlier pywheel has made, and what that read of it."""

    def __init__(self, name, request, folder):
        kind, *_ = name.split("-")
        self._server = None if kind == "sqlite" else request.getfixturevalue(f"{kind}_server")
        self._dump = DUMPS[kind]
        self._options = {"stores": 4} if name.endswith("of-4") else {}
        self._folder, self._made = folder, 0
        self.taken = json.loads((STORES / f"{name}.json").read_text())
        self.read = self.taken["read"]
        self.live = {job["id"] for job in self.read["jobs"] if job["state"] in ("delayed", "running", "held")}

    def make(self):
        """Make it, once more; return its address."""
        self._made += 1
        file = f"sqlite:///{self._folder}/jobs{self._made}.db"
        self.url = file if self._server is None else self._server.url(**self._options)
        self._dump(self._server, self.url).give(self.taken["dump"])
        return self.url

    def open(self):
        """Open it at the time at which it was left."""
        self.clock = ManualClock(wall=self.read["now"])
        return open(self.url, clock=self.clock)

    def has(self, topic):
        return topic in self.read["counts"]


@pytest.fixture(params=NAMES)
def older(request, tmp_path):
    older = Older(request.param, request, tmp_path)
    older.make()
    return older


@pytest.fixture(params=OLDEST)
def oldest(request, tmp_path):
    return Older(request.param, request, tmp_path)


def as_then(records, then):
    """Return records as JSON has them, but for what records did not say then."""
    names = then[0].keys() if then else ()
    found = [{name: value for name, value in record._asdict().items() if name in names} for record in records]
    return json.loads(json.dumps(found, default=plain))


def apply(store, command):
    [outcome] = store.apply([command])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def check(store, older):
    """What is read is what was read then."""
    read = older.read
    jobs = store.jobs(Filter(), 0, 1_000)
    assert as_then(jobs, read["jobs"]) == read["jobs"]
    for id, rows in read["histories"].items():
        assert as_then(store.history(int(id)), rows) == rows
    counts = store.counts()
    assert counts.keys() == read["counts"].keys()
    assert as_then(counts.values(), list(read["counts"].values())) == list(read["counts"].values())
    assert as_then(store.topics(), read["topics"]) == read["topics"]
    notes = json.loads(json.dumps(dict(store.notes("")), default=plain))
    assert notes == read.get("notes", {})
    assert store.verify() == []


def drained(store, clock):
    """Let days pass, and handle all there is; return what was delivered."""
    clock.advance(timedelta(days=4))
    for topic in store.topics():
        apply(store, c.Pause(topic.name, False))
    found = []
    while True:
        apply(store, c.Expire(1_000))
        jobs = [job for topic in store.topics() for job in apply(store, c.Reserve(topic.name, 100, TERMS, "new"))]
        if not jobs:
            return found
        found += jobs
        assert all(store.apply([c.Ack(job.id, job.claims) for job in jobs]))


def test_all_that_an_older_one_could_read_is_read_as_then(older):
    with older.open() as store:
        check(store, older)
    with older.open() as again:
        check(again, older)


def test_each_job_that_an_older_one_left_is_delivered_once(older):
    with older.open() as store:
        found = drained(store, older.clock)
        assert Counter(job.id for job in found) == Counter(older.live)
        bodies = {job["id"]: job["body"]["bytes"].encode("latin-1") for job in older.read["jobs"]}
        assert {job.id: job.body for job in found} == {id: bodies[id] for id in older.live}
        lanes = [job.priority for job in found if job.topic == "lanes"]
        assert lanes == sorted(lanes, reverse=True)
        assert bool(lanes) == older.has("lanes")
        for id, rows in older.read["histories"].items():
            ended = [row for row in rows if row["outcome"] is not None]
            assert as_then(store.history(int(id))[: len(ended)], ended) == ended
            if int(id) in older.live:
                assert store.history(int(id))[-1].outcome is Outcome.DONE
        assert {job.state for job in store.jobs(Filter(), 0, 1_000)} == {State.DONE, State.DEAD, State.CANCELLED}
        assert store.verify() == []


def test_receipts_keys_and_nonces_of_an_older_one_hold(older):
    of = defaultdict(list)
    for job in older.read["jobs"]:
        of[job["topic"]].append(SimpleNamespace(**job))
    with older.open() as store:
        running, held = of["run"]
        assert apply(store, c.Touch(running.id, running.claims, 3 * HOUR)) is True
        assert apply(store, c.Ack(running.id, running.claims)) is True
        assert apply(store, c.Begin(held.id, held.claims, HOUR)) is True
        assert store.get(held.id).attempt == 1
        [over] = of["over"]
        assert apply(store, c.Ack(over.id, over.claims)) is False
        for topic, key in (("far", "far"), ("chain", "chain"), ("a: \N{SNOWMAN}", "k: \N{SNOWMAN}")):
            job = next(job for job in of[topic] if job.key == key and not job.claims)
            with pytest.raises(JobExists) as caught:
                apply(store, c.Put((NewJob(topic, b"", older.read["now"], key),)))
            assert caught.value.id == job.id
            assert store.get((topic, key)).id == job.id
        [new] = apply(store, c.Put((NewJob("t", b"", older.read["now"], "k0"),)))  # its jobs have ended
        assert new not in {job["id"] for job in older.read["jobs"]}
        if older.has("nonce"):
            same = c.Put((NewJob("nonce", b"once", older.read["now"]),), "nonce 1")
            assert apply(store, same) == [job.id for job in of["nonce"]]
        if older.has("limited") and any(job.state == "running" for job in of["limited"]):
            assert apply(store, c.Reserve("limited", 3, TERMS._replace(limits=Limits(1)), "new")) == []
        assert store.verify() == []


@pytest.mark.parametrize("name", RELEASED)
def test_no_migration_was_changed_since_its_release(name):
    taken = json.loads((STORES / f"{name}.json").read_text())["migrations"]
    assert taken
    assert taken.items() <= migrations(SRC, name.partition("-")[0]).items()


def test_what_is_added_to_a_table_does_not_rewrite_it(postgres_server, request, tmp_path):
    older = Older("postgres-1", request, tmp_path)
    schema = parse_qs(urlsplit(older.make()).query)["schema"]
    sql = "SELECT relname, relfilenode FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'i')"
    with postgres_server.connect() as connection:
        before = connection.execute(sql, schema).fetchall()
        older.open().close()
        assert set(before) < set(connection.execute(sql, schema).fetchall())


@pytest.mark.stress
def test_a_process_that_is_killed_in_an_upgrade_leaves_it_to_the_next(oldest):
    for number in range(100):
        url = oldest.make()
        command = [sys.executable, "-m", "tests.stores.older.cut_child", url, str(number)]
        ended = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        assert ended.returncode == (0 if ended.stdout else -signal.SIGKILL)
        with oldest.open() as store:
            check(store, oldest)
            assert Counter(job.id for job in drained(store, oldest.clock)) == Counter(oldest.live)
        if ended.stdout:
            break
    assert number


def test_processes_that_upgrade_at_once_do_so_once(oldest):
    opening = "import sys, pywheel.stores; sys.stdin.read(); pywheel.stores.open(sys.argv[1]).close(); print('opened')"
    url = oldest.make()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    some = [subprocess.Popen([sys.executable, "-c", opening, url], **pipes) for _ in range(4)]
    for one in some:
        one.stdin.close()
    assert [one.stdout.read() for one in some] == [b"opened\n"] * len(some)
    for one in some:
        one.stdout.close()
        assert one.wait(60) == 0
    with oldest.open() as store:
        check(store, oldest)


# ---- beside others --------------------------------------------------------------------------------------------------

INSERT = "INSERT INTO pywheel_finished (topic, id, due, state, outcome, ended) VALUES (1, 0, 0, 0, 0, 0)"
WAITING = {
    "postgres": "SELECT pid FROM pg_locks WHERE NOT granted AND relation IS NOT NULL",
    "mariadb": "SELECT id FROM information_schema.processlist WHERE state LIKE '%metadata lock%'",
}


class Used(Older):
    """A store of the last version, of which a transaction that lasts has read a table."""

    def __init__(self, kind, request, folder):
        super().__init__(f"{kind}-4", request, folder)
        self.make()
        self._parts = urlsplit(self.url)
        self._waiting = WAITING[kind]
        self.dump = self.connect(autocommit=False)
        self.dump.cursor().execute("SELECT count(*) FROM pywheel_finished")

    def connect(self, **options):
        schema = parse_qs(self._parts.query).get("schema")
        place = {"options": f"-csearch_path={schema[0]}"} if schema else {"database": self._parts.path[1:]}
        return self._server.connect(**place, **options)

    def patient(self, seconds):
        """Return the address of who waits for so long."""
        return f"{self.url}&timeout={seconds}"

    def waiting(self):
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(self._waiting)
            return cursor.fetchall()


@pytest.fixture(params=WAITING)
def used(request, tmp_path):
    used = Used(request.param, request, tmp_path)
    yield used
    used.dump.close()


def test_older_workers_go_on_while_an_upgrade_waits_for_a_dump(used):
    upgraded = []
    opening = threading.Thread(target=lambda: upgraded.append(open(used.patient(30))))
    with closing(used.connect()) as worker, worker.cursor() as writing:
        opening.start()
        until(used.waiting)
        writing.execute(INSERT)
        went_on = opening.is_alive()
        writing.execute("DELETE FROM pywheel_finished WHERE id = 0")
        used.dump.rollback()
        opening.join()
    assert went_on
    upgraded[0].close()
    with used.open() as store:
        check(store, used)


def test_an_upgrade_that_is_kept_waiting_says_so_and_waits_no_longer(used):
    with pytest.raises(StoreBusy, match=r"its tables are in use by a transaction .* such as a dump"):
        open(used.patient(2))
    assert not used.waiting()
    used.dump.rollback()
    with used.open() as store:
        check(store, used)
