"""`pywheel token`: made, listed, removed; shown once."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from pywheel.server.tokens import Tokens, id_of


@pytest.fixture
def tokens(queue):
    return Tokens(queue.store)


@pytest.mark.parametrize(
    ("asked", "scopes"),
    [
        ("--scope put,work", "put work"),
        ("--role viewer", "read"),
        ("--role operator", "read put"),
        ("--role admin", "admin"),
    ],
)
def test_a_token_is_printed_alone_and_grants_what_was_asked_for(call, tokens, asked, scopes):
    code, out, err = call("token", "add", *asked.split(), "--topics", "shop.*, mail", "--until", "2100-01-01")
    assert (code, out.count("\n"), out[-1]) == (0, 1, "\n")
    grant = tokens.grant(out.strip())
    assert (grant.scopes, grant.topics) == ({*scopes.split()}, ("shop.*", "mail"))
    assert grant.until == datetime(2100, 1, 1, tzinfo=UTC)
    assert "not shown again" in err
    assert out.strip() not in err


def test_a_token_as_json_has_all_that_was_asked_for(call, tokens):
    code, out, _ = call("token", "add", "--scope", "put", "--scope", "read", "--note", "shop", "--json")
    record = json.loads(out)
    assert code == 0
    assert record.pop("token").startswith(f"pw_{record.pop('id')}_")
    assert record == {"scopes": ["put", "read"], "topics": ["*"], "until": None, "note": "shop"}


def test_the_list_shows_no_secrets(call, says):
    secret = call("token", "add", "--scope", "read", "--note", "one", "--until", "90d")[1].strip()
    [token] = says("token", "list")
    assert (token["id"], token["scopes"], token["note"], token["over"]) == (id_of(secret), ["read"], "one", False)
    code, out, err = call("token", "list")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split("\t") == ["id", "scopes", "topics", "until", "note", "made"]
    assert secret.rpartition("_")[2] not in out
    *_, until, _, made = out.splitlines()[1].split("\t")
    assert datetime.fromisoformat(until).utcoffset() == datetime.fromisoformat(made).utcoffset() == timedelta(0)


def test_tokens_are_removed_by_id_by_what_they_begin_with_and_by_note(call, says, tokens):
    secrets = [tokens.add("read", note=note) for note in ("a", "b", "c", "c", "d")]
    ids = [id_of(secret) for secret in secrets]
    code, out, _ = call("token", "remove", ids[0], "0" * 12)
    assert (code, out) == (1, f"removed: {ids[0]}\n")
    assert call("token", "remove", secrets[1][:16]) == (0, f"removed: {ids[1]}\n", "")
    assert sorted(says("token", "remove", "--note", "c")["removed"]) == sorted(ids[2:4])
    assert [token["note"] for token in says("token", "list")] == ["d"]
    assert [tokens.grant(secret) is None for secret in secrets] == [True] * 4 + [False]
    for words in (("0" * 12,), ("--note", "nobody")):
        assert call("token", "remove", *words)[:2] == (1, "no such token\n")
