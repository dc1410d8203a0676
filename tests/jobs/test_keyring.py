"""A keyring: what it seals it opens, for the same topic and key, unchanged; and it shows no key."""

import base64
import pickle
import sys
import traceback
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pywheel import BadBody, BadJob, BadOption, ExtraMissing, Keyring, NoKey
from pywheel.jobs import keyring as module
from pywheel.jobs.bodies import MAGIC, encoded, is_encrypted, key_of
from pywheel.jobs.keyring import new_key

ONE, TWO = bytes(range(32)), bytes(range(1, 33))
TEXT = base64.b64encode(ONE).decode()
SEALED = Keyring({"a": ONE}).seal("t", None, b"body")
names = st.text(min_size=1, max_size=30)
keys = st.none() | names


@given(names, keys, st.binary(max_size=300), st.binary(min_size=32, max_size=32))
def test_what_was_sealed_opens(topic, key, body, secret):
    if is_encrypted(body):
        return
    keyring = Keyring({"a": secret})
    sealed = keyring.seal(topic, key, body)
    assert is_encrypted(sealed)
    assert key_of(sealed) == "a"
    assert len(sealed) == len(body) + 55
    assert keyring.open(topic, key, sealed) == body


@example("tk", None, "t", "")  # they are not one text
@example("a", "kb", "ak", "b")
@example("t", None, "t", "")
@given(names, keys, names, keys)
def test_it_opens_for_no_other_topic_or_key(topic, key, other_topic, other_key):
    keyring = Keyring({"a": ONE})
    sealed = keyring.seal(topic, key, b"body")
    if (topic, key) == (other_topic, other_key):
        assert keyring.open(other_topic, other_key, sealed) == b"body"
    else:
        with pytest.raises(BadBody, match="moved here from another topic or key"):
            keyring.open(other_topic, other_key, sealed)


def test_no_byte_can_be_changed_left_out_or_added():
    keyring = Keyring({"a": ONE, "b": ONE}, plain=False)
    sealed = keyring.seal("t", "k", b"the body")
    changed = [sealed[:size] for size in range(len(sealed))] + [sealed + b"\0", sealed[:30] + b"\0" + sealed[30:]]
    for place, byte in enumerate(sealed):
        changed += [sealed[:place] + bytes([byte ^ flipped]) + sealed[place + 1 :] for flipped in (1, 0x80, 0xFF)]
    for body in changed:
        with pytest.raises(BadBody):
            keyring.open("t", "k", body)


def test_no_two_are_the_same():
    """Key and nonce of a body follow from 28 random bytes, which the envelope holds."""
    keyring = Keyring({"a": ONE})
    random = {keyring.seal("t", None, b"body")[11:39] for _ in range(2_000)}
    assert len(random) == 2_000
    assert len({part[:16] for part in random}) == len({part[16:] for part in random}) == 2_000


def test_the_format_is_what_is_documented():
    """Another program can read it: this one, by the description alone."""
    import hashlib
    import hmac

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealed = Keyring({"2026-11": ONE}).seal("shop.close", "order-7", b"body")
    assert sealed[:8] == b"\x93pywheel" == MAGIC
    assert (sealed[8], sealed[9], sealed[10:17]) == (1, 7, b"2026-11")
    envelope, nonce, rest = sealed[17:33], sealed[33:45], sealed[45:]
    own = hmac.new(ONE, b"pywheel body 1" + envelope, hashlib.sha256).digest()
    named = (10).to_bytes(4, "big") + b"shop.close" + b"k" + b"order-7"
    assert AESGCM(own).decrypt(nonce, rest, sealed[:45] + named) == b"body"


def test_a_body_of_an_older_day_opens():
    sealed = base64.b64decode("k3B5d2hlZWwBAWHx8fHx8fHx8fHx8fHx8fHx4uLi4uLi4uLi4uLitNZRps/2Jlre08+S2Bmr2KxMBN4=")
    assert Keyring({"a": ONE}).open("t", "k", sealed) == b"body"


@given(
    st.text().map(str.encode)
    | st.recursive(
        st.none() | st.booleans() | st.text() | st.integers(), lambda inner: st.lists(inner, max_size=3)
    ).map(encoded)
)
def test_no_text_and_no_json_looks_encrypted(body):
    assert not is_encrypted(body)


def test_the_first_key_encrypts_and_all_decrypt():
    old, new = Keyring({"old": ONE}), Keyring({"new": TWO, "old": ONE})
    assert new.current == "new"
    assert new.open("t", None, old.seal("t", None, b"1")) == b"1"
    assert key_of(new.seal("t", None, b"2")) == "new"
    assert Keyring([("old", ONE), ("new", TWO)], current="new").current == "new"


@pytest.mark.parametrize(
    ("keyring", "body", "error", "said"),
    [
        (Keyring({"b": TWO}), SEALED, NoKey, "there is no key 'a' here"),
        (Keyring({"a": TWO}), SEALED, BadBody, "another key of that name"),
        (Keyring({"a": ONE}, plain=False), b"{}", BadBody, "is not encrypted"),
    ],
    ids=["without its key", "another key of that name", "not encrypted"],
)
def test_a_body_that_does_not_open_says_why(keyring, body, error, said):
    with pytest.raises(BadBody, match=said) as caught:
        keyring.open("t", None, body)
    assert type(caught.value) is error


def test_plain_bodies_are_read_and_what_is_encrypted_is_not_encrypted_again():
    assert Keyring({"a": ONE}).open("t", None, b"{}") == b"{}"
    with pytest.raises(BadJob, match="already"):
        Keyring({"a": ONE}).seal("t", None, SEALED)


@pytest.mark.parametrize(
    "keys",
    [
        *({}, [], {"a": b""}, {"a": ONE[:16]}, {"a": ONE + b"\0"}, {"a": "x" * 32}, {"a": None}),
        *({"": ONE}, {"a b": ONE}, {"ä": ONE}, {"a" * 64: ONE}, {5: ONE}, [("a", ONE), ("a", TWO)], [ONE], 5, None),
    ],
)
def test_what_cannot_be_a_keyring_is_refused(keys):
    with pytest.raises(BadOption):
        Keyring(keys)


@pytest.mark.parametrize(
    ("keys", "words", "error"),
    [
        ({"a": ONE}, {"current": "b"}, BadOption),
        ({"a": ONE}, {"current": 5}, BadOption),
        ({}, {"find": 5}, TypeError),
        ({"a": ONE}, {"find": 5, "current": "b"}, TypeError),
    ],
)
def test_what_cannot_encrypt_or_find_keys_is_refused(keys, words, error):
    with pytest.raises(error):
        Keyring(keys, **words)


def test_a_service_is_asked_once_for_a_key():
    asked = []

    def find(id):
        asked.append(id)
        return {"a": ONE}.get(id)

    keyring = Keyring(find=find, current="a")
    sealed = [keyring.seal("t", None, b"body") for _ in range(3)]
    assert [keyring.open("t", None, one) for one in sealed] == [b"body"] * 3
    assert asked == ["a"]
    other = Keyring({"b": TWO}).seal("t", None, b"body")
    for _ in range(3):
        with pytest.raises(NoKey):
            keyring.open("t", None, other)
    assert asked == ["a", "b"]


def test_a_key_that_a_service_did_not_have_is_asked_for_again(monkeypatch):
    monkeypatch.setattr(module, "_MISSED", -1.0)
    there = {}
    keyring = Keyring(find=there.get, current="a")
    with pytest.raises(NoKey):
        keyring.seal("t", None, b"body")
    there["a"] = ONE
    assert key_of(keyring.seal("t", None, b"body")) == "a"


def test_a_service_that_failed_is_asked_again_after_a_second_and_until_then_the_error_says_why(monkeypatch):
    now, asked, there = [5.0], [], {}
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def find(id):
        asked.append(now[0])
        return there[id]

    keyring = Keyring(find=find, current="a")
    for now[0] in (5.0, 5.9, 6.0, 6.5):
        with pytest.raises(NoKey, match="KeyError"):
            keyring.seal("t", None, b"body")
    there["a"] = None
    for now[0] in (7.0, 8.0, 36.0):
        with pytest.raises(NoKey, match="no key 'a' here: "):
            keyring.seal("t", None, b"body")
    there["a"], now[0] = ONE, 37.0
    assert key_of(keyring.seal("t", None, b"body")) == "a"
    assert asked == [5.0, 6.0, 7.0, 37.0]


def test_a_service_that_fails_is_a_missing_key_and_its_words_stay_out():
    def find(id):
        raise ConnectionError("token=hush")

    with pytest.raises(NoKey, match="ConnectionError") as caught:
        Keyring(find=find, current="a").seal("t", None, b"body")
    assert "hush" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(BadOption, match="32 bytes"):
        Keyring(find=lambda id: b"short", current="a").seal("t", None, b"body")


def test_keys_are_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("PYWHEEL_KEYS", f"new:{base64.b64encode(TWO).decode()},old:{TEXT}")
    keyring = Keyring.from_env()
    assert keyring.current == "new"
    assert keyring.open("t", None, Keyring({"old": ONE}).seal("t", None, b"body")) == b"body"
    monkeypatch.delenv("PYWHEEL_KEYS")
    with pytest.raises(BadOption, match="PYWHEEL_KEYS"):
        Keyring.from_env()


def test_keys_are_read_from_a_file(tmp_path):
    file = tmp_path / "keys"
    urlsafe = base64.urlsafe_b64encode(b"\xff" * 32).decode()
    file.write_text(f"# the keys\nnew:{urlsafe}  # since November\n\nold:{TEXT}\n")
    keyring = Keyring.from_file(file)
    assert (keyring.current, keyring.key("new"), keyring.key("old")) == ("new", b"\xff" * 32, ONE)
    for wrong in (tmp_path / "none", tmp_path):
        with pytest.raises(BadOption):
            Keyring.from_file(wrong)
    file.write_bytes(b"\xff")
    with pytest.raises(BadOption):
        Keyring.from_file(file)


@pytest.mark.parametrize(
    "text", ["", "# none", "a", f"{TEXT}", f"a:{TEXT[:-4]}", f"a={TEXT}", f"a:{TEXT}é", f"a:{TEXT} a:{TEXT}"]
)
def test_a_text_that_holds_no_keys_is_refused_without_showing_it(text):
    with pytest.raises(BadOption) as caught:
        Keyring.from_text(text)
    assert TEXT[:10] not in "".join(traceback.format_exception(caught.value)).replace(text, "") or not text
    assert TEXT[:10] not in str(caught.value)


def test_a_new_key_is_read_back_and_is_no_other():
    one, two = new_key("a"), new_key("a")
    assert one != two
    assert Keyring.from_text(one).current == "a"
    with pytest.raises(BadOption):
        new_key("a b")


def test_a_keyring_shows_no_key():
    keyring = Keyring({"new": TWO, "old": ONE})
    assert repr(keyring) == "<Keyring: 'new' encrypts, 'new', 'old' decrypt>"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(keyring)


def test_an_error_shows_nothing_of_a_body_or_a_key():
    keyring = Keyring({"a": ONE}, plain=False)
    sealed = keyring.seal("t", "k", b"hush " * 20)
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for body in (changed, b"hush " * 20, changed[:40]):
        with pytest.raises(BadBody) as caught:
            keyring.open("t", "k", body)
        shown = "".join(traceback.format_exception(caught.value)).split("caught:")[-1]
        assert caught.value.__cause__ is None
        assert "hush" not in str(caught.value)
        assert repr(ONE)[2:20] not in shown


def test_without_the_library_a_keyring_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'pywheel-timer\[crypto\]'"):
        Keyring({"a": bytes(32)})


def test_a_service_is_asked_for_ids_alone_and_few_of_those_that_it_lacks_are_kept():
    """Whoever can write to a store chooses the ids that stand in bodies."""
    asked = []
    keyring = Keyring({"a": ONE}, find=asked.append)
    sealed = keyring.seal("t", None, b"body")
    begin = sealed.index(b"a", len(MAGIC))
    for id in (b"../admin?", b"b", b"\xff" * 9, b" c", *(b"%d" % n for n in range(2_000))):
        with pytest.raises(NoKey):
            keyring.open("t", None, sealed[: begin - 1] + bytes([len(id)]) + id + sealed[begin + 1 :])
    assert asked == ["b", *map(str, range(2_000))]
    assert len(keyring._missed) <= 1_000


def test_a_body_whose_key_a_service_answers_with_nonsense_lacks_it():
    asked = []

    def find(id):
        asked.append(id)
        return b"short"

    sealed = Keyring({"a": ONE}).seal("t", None, b"body")
    keyring = Keyring({"b": TWO}, find=find)
    for _ in range(2):
        with pytest.raises(NoKey):
            keyring.open("t", None, sealed)
    assert asked == ["a"]
