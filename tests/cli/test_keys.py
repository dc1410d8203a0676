"""Keys of encrypted bodies on the command line."""

import base64
import json

import pytest

from pywheel import JobQueue, Keyring
from pywheel.jobs.bodies import key_of
from pywheel.jobs.queries import ListJobs

ONE, TWO = bytes(range(32)), bytes(range(1, 33))


def text(**keys):
    return "\n".join(f"{id}:{base64.b64encode(key).decode()}" for id, key in keys.items())


def test_a_new_key_is_one_line_that_a_keyring_reads(call):
    code, out, err = call("new-key", "2026-11")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    assert Keyring.from_text(out).current == "2026-11"
    _, other, _ = call("new-key")
    assert other.partition(":")[2] != out.partition(":")[2]
    assert len(other.partition(":")[0]) == len("2026-11-22")


def test_put_encrypts_and_others_decrypt_with_keys_in_the_environment(says, url, monkeypatch):
    monkeypatch.setenv("PYWHEEL_KEYS", text(a=ONE))
    id = says("put", "t", '{"card": "hush"}')["id"]
    says("put", "t", '{"card": "loud"}')
    with JobQueue(url) as queue:
        assert key_of(queue.get(id).body) == "a"
    assert says("show", id)["body"] == '{"card": "hush"}'
    assert says("list")[0]["body"] == '{"card": "hush"}'
    assert [job["id"] for job in says("list", "--text", "hush")] == [id]
    assert says("cancel-many", "--text", "hush", "--yes") == {"cancelled": 1}
    assert says("show", id)["state"] == "cancelled"


def test_without_the_key_show_and_list_say_which_it_is(says, call, url, monkeypatch):
    with JobQueue(url, encryption=Keyring({"a": ONE})) as queue:
        id = queue.put("t", {"card": "hush"})
    for keys in ("", text(b=TWO)):
        monkeypatch.setenv("PYWHEEL_KEYS", keys)
        for shown in (says("show", id), *says("list")):
            assert shown["encrypted"] == "a"
            assert not shown.keys() & {"body", "body_base64"}
    assert "encrypted with a" in call("list")[1]


def test_keys_that_are_none_are_refused_and_not_shown(fails, monkeypatch):
    monkeypatch.setenv("PYWHEEL_KEYS", "a:hush")
    said = fails(2, "put", "t", "{}")
    assert ("PYWHEEL_KEYS" in said, "hush" in said) == (True, False)


@pytest.fixture
def keys(tmp_path):
    file = tmp_path / "keys"
    file.write_text(text(b=TWO, a=ONE))
    return file


def test_rekey_encrypts_what_is_there_and_says_what_it_could_not_read(says, call, url, keys):
    with JobQueue(url, encryption=Keyring({"a": ONE})) as queue:
        ids = queue.put_many(queue.job("t", n) for n in range(3))
    with JobQueue(url) as queue:
        ids.append(queue.put("t", 3))
    said = says("rekey", "--keys-file", keys)
    assert said == {"last": ids[-1], "rewritten": 4, "current": 0, "unreadable": 0, "changed": 0}
    assert call("rekey", "--keys-file", keys) == (0, "0 encrypted with b, 4 were\n", "")
    with JobQueue(url, encryption=Keyring({"b": TWO})) as queue:
        assert [queue.get(id).json() for id in ids] == [0, 1, 2, 3]
    keys.write_text(text(c=ONE))
    code, out, _ = call("rekey", "--keys-file", keys, "--json")
    assert (code, json.loads(out)["unreadable"]) == (1, 4)


def test_rekey_takes_keys_from_the_environment_and_goes_on_behind_a_job(says, queue, monkeypatch):
    ids = queue.put_many(queue.job("t", n) for n in range(3))
    monkeypatch.setenv("PYWHEEL_KEYS", text(b=TWO))
    assert says("rekey", "--after", ids[1])["rewritten"] == 1
    assert [key_of(queue.get(id).body) for id in ids] == [None, None, "b"]


def test_rekey_says_where_to_go_on(fails, queue, keys, monkeypatch):
    monkeypatch.setattr("pywheel.client.rekey._PAGE", 2)
    ids = queue.put_many(queue.job("t", n) for n in range(5))
    seal, sealed = Keyring.seal, []

    def sealing(*arguments):
        sealed.append(arguments)
        if len(sealed) > 4:
            raise KeyboardInterrupt
        return seal(*arguments)

    monkeypatch.setattr(Keyring, "seal", sealing)
    assert f"4 were encrypted; --after {ids[3]} goes on" in fails(130, "rekey", "--keys-file", keys)


def test_rekey_ends_though_jobs_are_put_meanwhile(says, queue, monkeypatch, meanwhile):
    monkeypatch.setenv("PYWHEEL_KEYS", text(a=ONE))
    queue.put("t")
    meanwhile("ask", ListJobs, lambda: queue.put("t"))
    assert says("rekey")["rewritten"] == 1
