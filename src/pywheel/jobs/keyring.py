"""The keys that encrypt bodies, and the format: AES-256-GCM, with a key of its own for each body.

An encrypted body is

    magic (8) | version (1) | size of the key id (1) | key id | envelope id (16) | nonce (12) | ciphertext | tag (16)

The envelope id is random. The body's own key is HMAC-SHA256 of the envelope id under the key that the key id names.
Two bodies share key and nonce only if 224 random bits are equal, so a key may encrypt any number of bodies. One key
for all bodies would be used up after 2**32 of them with random nonces. The tag also covers everything before the
ciphertext, and the job's topic and key. So a body that was changed, or moved to another topic or key, does not open.
It may stand in another job of the same topic and key, because a job's id is not known when it is put.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from .._errors import BadBody, BadJob, BadOption, NoKey
from .bodies import MAGIC, is_encrypted, key_of
from .checks import needed

Find = Callable[[str], bytes | None]

_VERSION: Final = 1
_SIZE: Final = 32  # bytes of a key
_ENVELOPE, _NONCE, _TAG = 16, 12, 16
_PURPOSE: Final = b"pywheel body 1"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MISSED: Final = 30.0  # seconds before a missing key is asked for again
_FAILED: Final = 1.0  # the same after an error: nobody knows whether the key is missing
_MOST_MISSED: Final = 1_000  # missing keys that are known at once


class Keyring:
    """Keys by id: the first encrypts, all decrypt. Any thread may use it.

    ::

        Keyring({"2026-11": new, "2026-01": old})
        Keyring.from_env("PYWHEEL_KEYS")
        Keyring.from_file("/run/secrets/pywheel-keys")
        Keyring(find=kms.fetch, current="2026-11")

    Args:
        keys: 32 bytes by id, or pairs of both. An id, 1 to 63 letters, digits, dots, dashes and
            underscores, is not secret.
        find: called with an id that is not among `keys`; returns its 32 bytes, or None. For keys in a key service.
            A key that it has returned is kept; a missing one is asked for again after 30 s, or 1 s after an error.
        current: the id of the key that encrypts; default: the first one.
        plain: whether to accept bodies and results that are not encrypted as well, for a store that is being
            encrypted. Every program that can write to the store can then put such ones. `get` and `list` show plain
            bodies in any case.

    Raises:
        BadOption: there is no key, or one is not 32 bytes, or an id is invalid or there twice; or `cryptography` is
            missing.
    """

    def __init__(
        self,
        keys: Mapping[str, bytes] | Iterable[tuple[str, bytes]] = (),
        *,
        find: Find | None = None,
        current: str | None = None,
        plain: bool = True,
    ) -> None:
        self._aes: Any = needed("cryptography.hazmat.primitives.ciphers.aead", "crypto").AESGCM
        self.plain = plain
        self._find = find
        self._missed: dict[str, tuple[float, str]] = {}  # when to ask again, and why there is no key
        self._keys: dict[str, bytes] = {}
        for id, key in _pairs(keys):
            if _checked_id(id) in self._keys:
                raise BadOption(f"there are two keys with the id {id!r}")
            self._keys[id] = _checked(id, key)
        if find is not None and not callable(find):
            raise TypeError("find must be a function that returns the key of an id")
        if current is None and not self._keys:
            raise BadOption(
                "a keyring needs a key: {id: 32 bytes}"
                if find is None
                else "give current=, the id of the key that encrypts"
            )
        self.current = next(iter(self._keys)) if current is None else _checked_id(current)
        """The id of the key that encrypts."""
        if find is None and self.current not in self._keys:
            raise BadOption(f"the keyring has no key {self.current!r}, which it should encrypt with")

    @classmethod
    def from_env(cls, name: str = "PYWHEEL_KEYS", *, plain: bool = True) -> Self:
        """Return the keys of an environment variable, as `from_text` reads them. BadOption if it is not set."""
        text = os.environ.get(name)
        if text is None:
            raise BadOption(f"set the environment variable {name} to the keys of encrypted bodies")
        return cls.from_text(text, plain=plain, where=name)

    @classmethod
    def of_environment(cls) -> Self | None:
        """Return the keys of PYWHEEL_KEYS; None if it is empty or not set. BadOption if they make no sense."""
        return cls.from_env() if os.environ.get("PYWHEEL_KEYS") else None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, plain: bool = True) -> Self:
        """Return the keys of a file, as `from_text` reads them. BadOption if it cannot be read."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise BadOption(f"the keys cannot be read: {error if isinstance(error, OSError) else 'no text'}") from None
        return cls.from_text(text, plain=plain, where=str(path))

    @classmethod
    def from_text(cls, text: str, *, plain: bool = True, where: str = "the text") -> Self:
        """Return keys written as ``id:base64``, between spaces, commas or line ends; # begins a comment."""
        lines = (line.partition("#")[0] for line in text.splitlines())
        words = [word for line in lines for word in line.replace(",", " ").split()]
        pairs = []
        for place, word in enumerate(words, 1):
            id, colon, encoded = word.partition(":")
            try:
                key = base64.b64decode(encoded.replace("-", "+").replace("_", "/"), validate=True)
            except ValueError:
                key = b""
            if not colon or len(key) != _SIZE:  # the message shows no part of the text: it may be a key
                raise BadOption(f"key {place} of {where} must be written as id:base64 of {_SIZE} bytes")
            pairs.append((id, key))
        return cls(pairs, plain=plain)

    def __repr__(self) -> str:
        return f"<Keyring: {self.current!r} encrypts, {', '.join(map(repr, self._keys))} decrypt>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a keyring cannot be pickled: that would write out its keys")

    def key(self, id: str) -> bytes:
        """Return a key. NoKey if it is missing, BadOption if `find` returned something else."""
        found = self._keys.get(id)
        return self._found(id) if found is None else found

    def _found(self, id: str) -> bytes:
        """Ask `find` for a key, and keep it. NoKey if it is missing, BadOption if `find` returned something else."""
        again, why = self._missed.get(id, (0.0, ""))
        # Bodies may have any text as id, if somebody else can write to the store: such text is for no service.
        if self._find is not None and _ID.fullmatch(id) and again <= time.monotonic():
            pause, why = _MISSED, ""
            try:
                found = self._find(id)
            except Exception as error:  # noqa: BLE001  (whatever a service may raise)
                found, pause, why = None, _FAILED, f" ({type(error).__name__})"
            if found is not None and _is_key(found):
                self._keys[id] = bytes(found)
                return self._keys[id]
            if len(self._missed) >= _MOST_MISSED:
                self._missed.clear()
            self._missed[id] = (time.monotonic() + pause, why)
            if found is not None:
                _checked(id, found)
        raise NoKey(f"there is no key {id!r:.80} here{why}: add it to PYWHEEL_KEYS, or to the queue's Keyring")

    # ---- bodies -----------------------------------------------------------------------------------------------------

    def seal(self, topic: str, key: str | None, body: bytes) -> bytes:
        """Return a job's body, encrypted. Takes some microseconds, and the time of AES. NoKey, BadOption."""
        if is_encrypted(body):
            raise BadJob("the body is encrypted already")
        secret = self.key(self.current)
        random = secrets.token_bytes(_ENVELOPE + _NONCE)
        head = b"%b%c%c%b%b" % (MAGIC, _VERSION, len(self.current), self.current.encode(), random)
        cipher = self._aes(_own_key(secret, random[:_ENVELOPE]))
        sealed: bytes = cipher.encrypt(random[_ENVELOPE:], body, head + _named(topic, key))
        return head + sealed

    def open(self, topic: str, key: str | None, body: bytes) -> bytes:
        """Return a body of this topic and key, decrypted; a plain body unchanged.

        Raises:
            NoKey: the key that it was encrypted with is missing, or `find` returned something else.
            BadBody: it was changed, or belongs to another job, or is not encrypted although `plain` is False.
        """
        if not is_encrypted(body):
            if self.plain:
                return body
            raise BadBody("the body is not encrypted, and this keyring reads only encrypted bodies")
        id = key_of(body)
        at = len(MAGIC) + 2 + (0 if id is None else body[len(MAGIC) + 1]) + _ENVELOPE
        if id is None or body[len(MAGIC)] != _VERSION or len(body) < at + _NONCE + _TAG:
            raise BadBody("the body is encrypted in an unknown format, or was cut off")
        try:
            secret = self.key(id)
        except BadOption as wrong:
            raise NoKey(str(wrong)) from None
        cipher = self._aes(_own_key(secret, body[at - _ENVELOPE : at]))
        start = at + _NONCE
        try:
            opened: bytes = cipher.decrypt(body[at:start], body[start:], body[:start] + _named(topic, key))
        except Exception:  # noqa: BLE001  (InvalidTag: its class is the library's)
            raise BadBody(
                f"the body does not open with key {id!r}: it was changed, or moved here from another topic or key, "
                "or this is another key of that name"
            ) from None
        return opened

    def is_current(self, body: bytes) -> bool:
        """Whether a body is encrypted with the current key."""
        return key_of(body) == self.current


def new_key(id: str) -> str:
    """Return a new key as `Keyring.from_text` reads it. BadOption if the id is invalid."""
    return f"{_checked_id(id)}:{base64.b64encode(secrets.token_bytes(_SIZE)).decode()}"


def _own_key(secret: bytes, envelope: bytes) -> bytes:
    """Return the key of one body."""
    return hmac.digest(secret, _PURPOSE + envelope, "sha256")


def _named(topic: str, key: str | None) -> bytes:
    """Return a topic and a key as bytes that are different for every pair."""
    name = topic.encode()
    return len(name).to_bytes(4, "big") + name + (b"" if key is None else b"k" + key.encode())


def _pairs(keys: Any) -> list[tuple[Any, Any]]:
    try:
        pairs = [(id, key) for id, key in (keys.items() if isinstance(keys, Mapping) else keys)]
    except (TypeError, ValueError):
        raise BadOption("keys must be a dict {id: 32 bytes}, or pairs of both") from None
    return pairs


def _checked_id(id: Any) -> str:
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise BadOption("the id of a key has 1 to 63 letters, digits, dots, dashes and underscores")
    return id


def _is_key(key: Any) -> bool:
    return isinstance(key, bytes | bytearray) and len(key) == _SIZE


def _checked(id: str, key: Any) -> bytes:
    if not _is_key(key):
        size = f"{len(key)} bytes" if isinstance(key, bytes | bytearray) else type(key).__name__
        raise BadOption(f"key {id!r} must have {_SIZE} bytes, not {size}")
    return bytes(key)
