"""A queue with a keyring: bodies are encrypted wherever they are stored, and holders of the key notice nothing."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pywheel import BadBody, BadJob, Change, JobQueue, Keyring, NoKey, StoreAway
from pywheel.client.copier import Copier
from pywheel.client.rekey import rekey
from pywheel.jobs import Job, NewJob, State
from pywheel.jobs.bodies import is_encrypted, key_of
from pywheel.jobs.commands import Ack, Edit, Import, Put, Rewrite
from pywheel.jobs.job import Attempt, Imported, Outcome
from pywheel.jobs.queries import Filter, GetHistories, GetJob, ListJobs
from pywheel.stores import open as open_store
from pywheel.testing import run_due
from tests.client.periods import pass_time, start
from tests.jobs.waiting import until

ONE, TWO = bytes(range(32)), bytes(range(1, 33))
SECRET = {"card": "hush-4111-1111"}


@pytest.fixture
def store():
    """In memory: what a store is asked for by what encrypts before it, its suite shows of each."""
    with open_store("memory:") as store:
        yield store


@pytest.fixture
def queue(store):
    return JobQueue(store, encryption=Keyring({"a": ONE}))


def bodies(store):
    """The bodies as the store has them."""
    return [job.body for job in store.ask(ListJobs(Filter(), 0, 1_000))]


def plain(store):
    return [body for body in bodies(store) if not is_encrypted(body)]


def test_an_edit_encrypts_the_new_body_for_its_job(queue, store):
    ids = [queue.put("t", "old", key="k"), queue.put("u", "old")]
    assert queue.jobs.edit(("t", "k"), body=SECRET)
    assert asyncio.run(queue.aio.jobs.edit(ids[1], body=SECRET, priority=1))
    assert queue.jobs.edit(10**9, body=SECRET) is Change.NOT_FOUND
    assert plain(store) == []
    assert [queue.get(id).json() for id in ids] == [SECRET] * 2
    for ref in (None, "7", ("t",), ("t", 5), (None, "k")):
        [refusal] = queue.store.apply([Edit(ref, body=b"new")])
        assert isinstance(refusal, BadJob)


def test_every_way_to_put_encrypts_and_every_way_to_read_decrypts(queue, store):
    async def put():
        one = await queue.aio.put("t", SECRET)
        return one, *(await queue.aio.put_many([queue.job("t", SECRET), queue.job("t", SECRET, key="m")]))

    ids = [queue.put("t", SECRET), *queue.put_many(queue.job("t", SECRET) for _ in range(2)), *asyncio.run(put())]
    queue.put("t", SECRET, key="m", replace=True, delay="1h")
    assert len(bodies(store)) == 6
    assert plain(store) == []
    assert all(key_of(body) == "a" for body in bodies(store))
    assert [queue.get(id).json() for id in ids] == [SECRET] * 6
    assert [job.json() for job in queue.jobs.list()] == [SECRET] * 6
    assert [job.json() for job in asyncio.run(queue.aio.jobs.list())] == [SECRET] * 6
    assert queue.get(("t", "m")).json() == SECRET
    assert [job.json() for job in queue.reserve("t", 3)] == [SECRET] * 3
    assert [job.json() for job in asyncio.run(queue.aio.reserve("t", 9))] == [SECRET] * 2


def test_the_limit_is_on_what_the_program_gives(store):
    queue = JobQueue(store, encryption=Keyring({"a": ONE}), max_body=10)
    queue.put("t", b"x" * 10)
    with pytest.raises(BadJob):
        queue.put("t", b"x" * 11)


def test_without_a_keyring_a_body_is_seen_to_be_encrypted(queue, store):
    id = queue.put("t", SECRET)
    other = JobQueue(store)
    assert is_encrypted(other.get(id).body)
    assert is_encrypted(other.jobs.list()[0].body)
    with pytest.raises(NoKey, match=f"job {id} is encrypted, with key 'a': .* the queue's Keyring"):
        other.get(id).json()


@pytest.mark.parametrize(
    ("sealing", "keyring", "said"),
    [
        (Keyring({"a": ONE}), None, "is encrypted, with key 'a'"),
        (Keyring({"a": ONE}), Keyring({"b": TWO}), "there is no key 'a' here"),
        (Keyring({"a": ONE}), Keyring({"a": TWO}), "another key of that name"),
        (None, Keyring({"a": ONE}, plain=False), "the body is not encrypted"),
    ],
    ids="none other wrong plain".split(),
)
def test_a_reserve_without_the_key_raises_and_leaves_the_job_as_it_was(store, sealing, keyring, said):
    queue, other = JobQueue(store, encryption=sealing), JobQueue(store, encryption=keyring)
    id = queue.put("t", SECRET, max_attempts=1)
    for reserve in (other.reserve, lambda *arguments: asyncio.run(other.aio.reserve(*arguments))):
        with pytest.raises(BadBody, match=f"job {id}.*{said}"):
            reserve("t", 5)
    job = queue.get(id)
    assert (job.state, job.attempt, job.last_error) == ("delayed", 0, None)
    assert queue.reserve("t")[0].json() == SECRET


def test_arguments_that_are_encrypted_are_not_bad_ones(queue, store):
    def close(n: int) -> None: ...

    task, same = (one.task("t")(close) for one in (queue, JobQueue(store)))
    id = task.put(7)
    assert task.arguments(queue.get(id)) == {"n": 7}
    with pytest.raises(NoKey):
        same.arguments(JobQueue(store).get(id))


def test_a_body_moved_to_another_job_is_refused_there(queue, store):
    mine, other = queue.put("t", {"to": "me"}, key="mine"), queue.put("t", {"to": "you"}, key="other")
    stolen, old = store.ask(GetJob(other)).body, store.ask(GetJob(mine)).body
    assert store.apply([Rewrite(mine, old, stolen)]) == [True]
    with pytest.raises(BadBody, match="moved here from another topic or key"):
        queue.store.opened(store.ask(GetJob(mine)))


def test_a_put_within_a_transaction_encrypts_and_so_does_a_queue_that_goes_over_to_another_store(tmp_path):
    queue = JobQueue("memory:", encryption=Keyring({"a": ONE}))
    queue.use(f"sqlite:///{tmp_path}/jobs.db")
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
        connection.execute("BEGIN")
        id = queue.put("t", SECRET, connection=connection)
        ids = queue.put_many([queue.job("t", SECRET)], connection=connection)
    assert [queue.get(one).json() for one in (id, *ids, queue.put("t", SECRET))] == [SECRET] * 3
    assert plain(queue.store.behind) == []
    queue.close()


def test_what_cannot_be_encrypted_is_refused_and_the_rest_is_put(queue, store):
    sealed = Keyring({"a": ONE}).seal("t", None, b"x")
    commands = [Put((NewJob("t", body, 0),)) for body in (b"1", sealed, b"2")]
    first, refused, last = queue.store.apply(commands)
    assert isinstance(refused, BadJob)
    assert "encrypted already" in str(refused)
    assert [queue.get(id).body for [id] in (first, last)] == [b"1", b"2"]
    assert queue.store.apply([commands[1]])[0].args == refused.args
    assert queue.store.apply([]) == []
    away = JobQueue(store, encryption=Keyring(find=lambda id: None, current="a"))
    with pytest.raises(NoKey):
        away.put("t", SECRET)
    assert len(bodies(store)) == 2


# ---- where bytes lie ------------------------------------------------------------------------------------------------


def files(folder):
    return {file.name: file.read_bytes() for file in Path(folder).iterdir() if file.is_file()}


def test_no_file_of_a_store_holds_anything_of_a_body(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url, encryption=Keyring({"a": ONE})) as queue:
        for size in (1, 50, 5_000):
            queue.put_many(queue.job("t", {"text": "hush-4111" * size}, key=f"{size}-{n}") for n in range(20))
        queue.put("t", SECRET, key="1-1", replace=True)
        [job] = queue.reserve("t")
        queue.nack(job, 0, error="it failed")
        found = files(tmp_path)
        assert found["jobs.db-wal"]
        assert [name for name, content in found.items() if b"hush" in content or b"4111" in content] == []
    assert [name for name, content in files(tmp_path).items() if b"hush" in content] == []


def test_a_spool_holds_ciphertext_and_forwards_it(tmp_path):
    keyring = Keyring({"a": ONE})
    away = "postgresql://nobody@127.0.0.1:1/none?connect_timeout=1"
    queue = JobQueue(away, encryption=keyring, spool=f"sqlite:///{tmp_path}/spool.db")
    id = queue.put("t", SECRET, key="k")
    assert id < 0
    assert queue.get(id).json() == SECRET
    with pytest.raises(StoreAway):
        queue.get(1)
    assert [name for name, content in files(tmp_path).items() if b"hush" in content] == []
    queue.close()
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db", encryption=keyring, spool=f"sqlite:///{tmp_path}/spool.db") as queue:
        until(lambda: queue.topics.counts().get("t"))
        [job] = queue.jobs.list("t")
        assert (job.key, job.json()) == ("k", SECRET)
    assert [name for name, content in files(tmp_path).items() if b"hush" in content] == []


# ---- other stores, other keys ---------------------------------------------------------------------------------------


def test_a_copy_of_a_store_has_the_same_ciphertext_in_bodies_and_results(queue, store):
    with open_store("memory:") as target:
        store.url, target.url = "memory:source", "memory:target"
        waits, ended = queue.put("t", SECRET, key="k", delay="1h"), done(queue, SECRET, key="l")
        Copier(store, target).carry()
        copies = [target.ask(GetJob(("t", key))) for key in "kl"]
        assert [copy.body for copy in copies] == [store.ask(GetJob(id)).body for id in (waits, ended)]
        assert stored(target, copies[1].id) == stored(store, ended)
        there = JobQueue(target, encryption=Keyring({"a": ONE}))
        assert there.get(("t", "k")).json() == there.result(copies[1].id).json() == SECRET


def test_an_import_encrypts_what_is_plain_and_keeps_what_is_not(queue, store):
    sealed = Keyring({"old": TWO}).seal("t", None, b"sealed")
    jobs = [Imported(Job(1, "t", body, 5, 5, State.DELAYED)) for body in (b"plain", sealed)]
    past = (Attempt(1, 1, 5, 6, Outcome.DONE, "w", None, b"result"),)
    jobs.append(Imported(Job(1, "t", b"b", 5, 5, State.DONE, claims=1, attempt=1), past))
    [[first, second, ended]] = queue.store.apply([Import(tuple(jobs))])
    assert key_of(store.ask(GetJob(first)).body) == key_of(stored(store, ended)) == "a"
    assert queue.get(first).body == b"plain"
    assert store.ask(GetJob(second)).body == sealed
    assert queue.result(ended).result == b"result"


def test_rekey_encrypts_all_with_the_new_key(queue, store):
    ended = [done(queue, SECRET), done(JobQueue(store), SECRET)]  # bodies and results
    ids = queue.put_many(queue.job("t", {"n": n}, key=f"{n}") for n in range(5))
    ids += [JobQueue(store).put("t", {"n": 5})]
    queue.cancel(ids[0])
    [running] = queue.reserve("t")
    both = Keyring({"b": TWO, "a": ONE})
    before = [job._replace(body=b"") for job in queue.jobs.list()]
    told = []
    found = rekey(store, both, progress=told.append)
    assert (found.rewritten, found.current, found.unreadable, found.changed) == (10, 0, 0, 0)
    assert told == [found]
    assert {key_of(body) for body in bodies(store)} == {key_of(stored(store, id)) for id in ended} == {"b"}
    new = JobQueue(store, encryption=Keyring({"b": TWO}))
    assert [new.get(id).json() for id in ids] == [{"n": n} for n in range(6)]
    assert [new.result(id).json() for id in ended] == [SECRET, SECRET]
    assert [job._replace(body=b"") for job in new.jobs.list()] == before
    assert new.ack(running)
    assert rekey(queue.store, both)._replace(last=0) == (0, 0, 10, 0, 0)


def test_rekey_leaves_what_it_cannot_read(queue, store):
    queue.put("t", SECRET)
    before = bodies(store)
    assert rekey(store, Keyring({"b": TWO})).unreadable == 1
    assert bodies(store) == before
    with pytest.raises(NoKey):
        rekey(store, Keyring(find=lambda id: None, current="c"))


@pytest.mark.parametrize(("times", "found"), [(1, (1, 0)), (1_000, (0, 1))])
def test_rekey_does_not_undo_what_is_put_meanwhile_and_gives_up_in_the_end(queue, store, monkeypatch, times, found):
    id = queue.put("t", 0, key="k", delay="1h")
    both = Keyring({"b": TWO, "a": ONE})
    seal, said = both.seal, []

    def sealing(topic, key, body):
        if len(said) < times:
            said.append(len(said) + 1)
            queue.put("t", said[-1], key="k", replace=True, delay="1h")
        return seal(topic, key, body)

    monkeypatch.setattr(both, "seal", sealing)
    ended = rekey(store, both)
    assert (ended.rewritten, ended.changed) == found
    assert key_of(store.ask(GetJob(id)).body) == ("b" if ended.rewritten else "a")
    assert JobQueue(store, encryption=both).get(id).json() == said[-1]


def test_rekey_leaves_the_notes_of_a_copy_alone(store):
    with open_store("memory:") as target:
        store.url, target.url = "memory:source", "memory:target"
        JobQueue(store).put("t", SECRET, delay="1h")
        copier = Copier(store, target)
        copier.carry()
        assert rekey(target, Keyring({"a": ONE})).rewritten == 1
        assert copier.state() == "carrying"
        assert copier.carry().total == 1


def test_rekey_encrypts_what_schedules_put(clock):
    """Otherwise no tick is put any more once the old key is removed."""
    start(clock)
    store = open_store("memory:", clock=clock)
    queue = JobQueue(store, encryption=Keyring({"a": ONE}))
    JobQueue(store).schedules.set("plain", "t", SECRET, every="1m")
    JobQueue(store).schedules.set("without a body", "t", b"", every="1m")
    for name in ("sealed", "removed"):
        queue.schedules.set(name, "t", SECRET, every="1m")
    queue.schedules.delete("removed")
    run_due(queue)  # puts ticks ahead of their time
    ticks = [job.id for job in queue.jobs.list("t", state="delayed")]
    before = [one.schedule for one in queue.schedules.list()]
    both = Keyring({"b": TWO, "a": ONE})
    assert rekey(store, Keyring({"b": TWO})).unreadable == sum(key_of(body) == "a" for body in bodies(store)) + 1
    found = rekey(store, both)
    assert (found.unreadable, found.changed) == (0, 0)
    assert rekey(store, both).rewritten == 0
    new, seen = JobQueue(store, encryption=Keyring({"b": TWO}, plain=False)), []
    new.handler("t")(lambda job: seen.append(job.body and job.json()))
    assert [job.id for job in new.jobs.list("t", state="delayed")] == ticks
    after = [one.schedule for one in new.schedules.list()]
    assert [replace(one, body=b"") for one in after] == [replace(one, body=b"") for one in before]
    pass_time(new, clock, 600)
    assert sorted(map(str, seen)) == sorted(10 * ["b''", str(SECRET), str(SECRET)])


# ---- results --------------------------------------------------------------------------------------------------------


def done(queue, result, key=None):
    """Put a job and have it done with a result; return its id."""
    queue.handlers.clear()
    queue.handler("t", results=True)(lambda job: result)
    id = queue.put("t", "b", key=key)
    run_due(queue)
    return id


def stored(store, id):
    """The result of a job as the store has it."""
    return store.ask(GetHistories([id]))[0][-1].result


def test_a_result_lies_encrypted_and_is_read_plain(queue, store):
    id = done(queue, SECRET, key="k")
    assert key_of(stored(store, id)) == "a"
    assert queue.result(id).json() == SECRET
    assert queue.jobs.history(id)[-1].result == queue.result(id).result
    with pytest.raises(NoKey, match=r"the result of job \d+ is encrypted, with key 'a'"):
        JobQueue(store).result(id).json()
    by_hand = queue.put("t")
    [job] = queue.reserve("t")
    assert queue.store.apply([Ack(by_hand, job.claims, b"plain")]) == [True]
    assert key_of(stored(store, by_hand)) == "a"
    assert queue.result(by_hand).result == b"plain"


def test_a_plain_result_is_none_for_a_keyring_that_refuses_what_is_plain(queue, store):
    id, forged = done(queue, SECRET), done(JobQueue(store), "forged")
    assert [queue.result(one).json() for one in (id, forged)] == [SECRET, "forged"]
    strict = JobQueue(store, encryption=Keyring({"a": ONE}, plain=False))
    assert strict.result(id).json() == SECRET
    for found in (strict.result(forged), strict.wait(forged), strict.jobs.history(forged)[-1]):
        assert found.result is None
    with pytest.raises(BadBody, match="has no result"):
        strict.result(forged).json()


def test_a_plain_body_is_shown_as_it_is_by_a_keyring_that_refuses_what_is_plain(queue, store):
    id = JobQueue(store).put("t", "forged")
    strict = JobQueue(store, encryption=Keyring({"a": ONE}, plain=False))
    assert [job.json() for job in (strict.get(id), *strict.jobs.list())] == ["forged"] * 2
    with pytest.raises(BadBody, match="not encrypted"):
        strict.reserve("t")


def test_a_result_cannot_stand_for_a_body_nor_for_another_jobs_result(queue, store):
    id, other = done(queue, SECRET, key="k"), done(queue, SECRET, key="l")
    one, two = stored(store, id), stored(store, other)
    assert store.apply([Rewrite(other, two, one, 1)]) == [True]
    assert queue.result(other).result == one  # as it is
    body = store.ask(GetJob(id)).body
    assert store.apply([Rewrite(id, body, one)]) == [True]
    assert queue.get(id).body == one
