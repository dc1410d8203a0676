"""Tokens: what they grant, for how long, and that nobody finds a secret in the store."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from pywheel import BadOption
from pywheel.jobs.commands import Purge, SetNote
from pywheel.jobs.job import State
from pywheel.server import tokens as module
from pywheel.server.tokens import SCOPES, Grant, Tokens, id_of
from pywheel.stores import open
from pywheel.testing import FaultyStore, ManualClock

NOW = 1_700_000_000_000
START = datetime.fromtimestamp(NOW / 1_000, UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def clock():
    return ManualClock(wall=NOW)


@pytest.fixture
def store(clock):
    with FaultyStore(open("memory:", clock=clock)) as store:
        yield store


@pytest.fixture
def tokens(store, clock):
    return Tokens(store)


# ---- what a token grants --------------------------------------------------------------------------------------------


def test_a_secret_grants_what_its_token_says(tokens):
    secret = tokens.add(["put", "work"], ["shop.*"], START + HOUR, "shop backend")
    grant = tokens.grant(secret)
    assert grant == Grant(id_of(secret), frozenset({"put", "work"}), ("shop.*",), START + HOUR, "shop backend", START)
    allowed = {("put", "shop.mail"), ("work", "shop."), ("put", None)}  # None: whether the scope is there at all
    others = {("put", "shop"), ("put", "Shop.mail"), ("read", "shop.mail"), ("admin", "shop.mail"), ("read", None)}
    for asked in allowed | others:
        assert grant.may(*asked) is (asked in allowed), asked


def test_admin_implies_the_other_scopes_but_no_other_topics(tokens):
    grant = tokens.grant(tokens.add("admin", "shop.*"))
    assert (grant.scopes, grant.topics) == (frozenset({"admin"}), ("shop.*",))
    assert all(grant.may(scope, "shop.mail") for scope in SCOPES)
    assert not any(grant.may(scope, "mail") for scope in SCOPES)


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("*", "anything.at all", True), ("*", "", True), ("shop.*", "shop.a.b", True), ("shop.?", "shop.ab", False),
        ("[ab]*", "bcd", True), ("[!ab]*", "bcd", False), ("a.b", "aXb", False), ("shop.*", "xshop.y", False),
        ("shop", "shop\n", False), ("\N{SNOWMAN}*", "\N{SNOWMAN}x", True),
    ],
)  # fmt: skip
def test_patterns_are_those_of_a_shell(pattern, topic, fits):
    assert Grant("i", frozenset({"read"}), ("never", pattern), None).may("read", topic) is fits


# ---- what grants nothing --------------------------------------------------------------------------------------------


def test_a_token_is_over_at_its_end_also_if_it_was_just_read(tokens, clock):
    secret = tokens.add(["read"], until=START + timedelta(seconds=2))
    clock.advance(1.9)
    assert tokens.grant(secret) is not None
    clock.advance(0.1)
    assert tokens.grant(secret) is None


def test_a_removed_token_grants_nothing_here_and_elsewhere(tokens, store):
    secret = tokens.add(["read"])
    other = Tokens(store)
    assert tokens.grant(secret) == other.grant(secret) is not None
    assert tokens.remove(id_of(secret)) is True
    assert tokens.grant(secret) is other.grant(secret) is None
    assert tokens.remove(id_of(secret)) is False
    assert tokens.grant("pw_" + "0" * 12 + "_" + "A" * 43) is None


def test_a_wrong_secret_with_a_right_id_grants_nothing(tokens):
    secret, other = tokens.add(["read"]), tokens.add(["admin"])
    wrong = [f"pw_{id_of(secret)}_{other.split('_', 2)[2]}", secret[:-1] + ("a" if secret[-1] != "a" else "b")]
    for _ in range(2):  # the second time it was just read
        assert [tokens.grant(one) for one in wrong] == [None, None]
        assert tokens.grant(secret) is not None


ID = "pw_" + "0" * 12 + "_"
MALFORMED = [
    "", "pw_", "pw__", "pw_000000000000_", "token:000000000000", ID + "A" * 42, ID + "A" * 44, ID + "A" * 42 + "\n",
    ID + "A" * 42 + "\u0661", "pw_" + "../" * 4 + "_" + "A" * 43, "\ud800", "x" * 10**6, None, b"pw", 7,
]  # fmt: skip


@pytest.mark.parametrize("secret", MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_no_secret_grants_nothing_and_asks_nobody(tokens, store, secret):
    store.away = True
    assert tokens.grant(secret) is None


def test_digests_are_compared_in_constant_time(tokens, monkeypatch):
    compared = []
    real = module.compare_digest
    monkeypatch.setattr(module, "compare_digest", lambda *both: compared.append(both) or real(*both))
    secret = tokens.add(["read"])
    tokens.grant(secret)
    tokens.grant(secret[:-1] + ("a" if secret[-1] != "a" else "b"))
    assert [len(one) for both in compared for one in both] == [64] * 4
    assert [a == b for a, b in compared] == [True, False]


@pytest.mark.parametrize(
    "value",
    [
        b"", b"\xff", b"[" * 60_000, b"[]", b"null", b"7", b"{}", b'{"scopes": 7}',
        b'{"scopes": ["read"], "topics": ["*"], "until": "x"}',
    ],
)  # fmt: skip
def test_what_is_no_token_grants_nothing_and_can_be_removed(tokens, store, value):
    secret = tokens.add(["read"])
    store.apply([SetNote(f"token:{id_of(secret)}", value)])
    assert tokens.grant(secret) is None
    [token] = tokens.list()
    assert (token.id, token.scopes) == (id_of(secret), frozenset())
    assert tokens.remove(token.id)
    assert tokens.list() == []


# ---- secrets --------------------------------------------------------------------------------------------------------


def test_the_secret_is_nowhere_in_the_file(tmp_path):
    with open(f"sqlite:///{tmp_path}/jobs.db") as store:
        secret = Tokens(store).add(["admin"], note="n" * 50)
        random = secret.split("_", 2)[2].encode()
        kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"n" * 50 in kept  # so it was looked for in the right place
        assert random not in kept
    assert random not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_secrets_are_of_256_bits_and_differ_and_no_id_is_taken_twice(tokens, monkeypatch):
    secrets = {tokens.add(["read"]) for _ in range(50)}
    assert len({id_of(secret) for secret in secrets}) == 50
    assert {len(secret.split("_", 2)[2]) for secret in secrets} == {43}
    ids = iter(["0" * 12, "0" * 12, "1" * 12])
    monkeypatch.setattr(module, "token_hex", lambda _: next(ids))
    assert [id_of(tokens.add(["read"])) for _ in range(2)] == ["0" * 12, "1" * 12]


def test_what_stands_for_a_token_is_its_id_its_secret_or_a_part_of_that(tokens):
    secret = tokens.add(["read"])
    id = id_of(secret)
    for text in (id, f"pw_{id}", f"pw_{id}_", secret, secret[:-5]):
        assert id_of(text) == id
    for text in ("", id[:-1], id + "0", "pw_", id.upper() + "x", f"{id}\n", "shop backend"):
        assert id_of(text) is None


# ---- the list -------------------------------------------------------------------------------------------------------


def test_tokens_are_listed_without_their_secrets(tokens, clock):
    first = tokens.add(["work", "put"], ["b", "a"], START + HOUR, "first")
    clock.advance(1)
    second = tokens.add(["admin"])
    listed = {token.id: token for token in tokens.list()}
    assert list(listed) == sorted(map(id_of, (first, second)))
    assert listed[id_of(first)][1:] == ({"put", "work"}, ("b", "a"), START + HOUR, "first", START)
    assert listed[id_of(second)][1:] == ({"admin"}, ("*",), None, "", START + timedelta(seconds=1))
    for number in range(1_010):  # more than a page
        tokens.add(["read"], note=str(number))
    assert {token.name for token in tokens.list()} == {"first", "", *map(str, range(1_010))}


def test_a_token_may_last_until_the_end_of_the_year_9999_and_is_read(tokens):
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert tokens.grant(tokens.add(["read"], until=last)).until == last


def test_one_that_is_over_is_listed_for_a_while(tokens, store, clock):
    tokens.add(["read"], until=START + HOUR)
    tokens.add(["read"], note="stays")
    clock.advance(HOUR + timedelta(days=29))
    assert len(tokens.list()) == 2
    clock.advance(timedelta(days=1))
    store.apply([Purge(State.DONE, 0, None, 100)])
    assert [token.name for token in tokens.list()] == ["stays"]


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([],), "a token needs"), ((["reed"],), "did you mean read"), (("x" * 10**6,), "is not a scope"),
        ((["read", 7],), "scopes are texts"), ((7,), "scopes are texts"), ((["read"], []), "needs topics"),
        ((["read"], [""]), "1 to"), ((["read"], ["x" * 20_000]), "1 to"), ((["read"], ["\ud800"]), "Unicode"),
        ((["read"], [None]), "topics are texts"), ((["read"], ["x" * 16_000] * 10), "64|65536"),
        ((["read"], ["*"], datetime(2100, 1, 1)), "zone|aware"), ((["read"], ["*"], START), "that time has passed"),
        ((["read"], ["*"], START - HOUR), "that time has passed"), ((["read"], ["*"], "2100-01-01"), "datetime"),
        ((["read"], ["*"], datetime(9999, 12, 31, 23, tzinfo=timezone(-HOUR))), "after the year 9999"),
        ((["read"], ["*"], datetime.max.replace(tzinfo=UTC)), "after the year 9999"),
        ((["read"], ["*"], None, "n" * 201), "200"), ((["read"], ["*"], None, 7), "200"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_and_makes_no_token(tokens, arguments, said):
    with pytest.raises(BadOption, match=said):
        tokens.add(*arguments)
    assert tokens.list() == []
