"""Arguments by msgspec: every type that it knows, and pydantic models by their own validation."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Union

from .._errors import BadArguments, BadBody
from .arguments import Field, Misfit

_NEVER_NULL: Final = (bool, int, float, str, bytes)  # msgspec refuses null for these types by itself
_SEVERAL: Final = (list, tuple, set, frozenset)
_PLACE: Final = re.compile(r" - at `\$\.([^.\[`]+)([^`]*)`$")
_MISSING: Final = re.compile(r"^Object missing required field `([^`]+)`$")
_UNKNOWN: Final = re.compile(r"^Object contains unknown field `([^`]+)`$")


class TypedCodec:
    """Writes and reads the arguments of one task."""

    def __init__(self, task: str, fields: Mapping[str, Field]) -> None:
        import msgspec

        optional = [name for name, field in fields.items() if not field.required]
        defined: list[Any] = [
            (name, Union[field.type, msgspec.UnsetType], msgspec.UNSET) if name in optional else (name, field.type)  # noqa: UP007  (a type may be any object here)
            for name, field in fields.items()
        ]
        try:
            form: Any = msgspec.defstruct("Arguments", defined, kw_only=True, forbid_unknown_fields=True, gc=False)
            self.read: Callable[[bytes], Any] = msgspec.json.Decoder(form, dec_hook=_made).decode
        except (TypeError, RuntimeError) as error:  # RuntimeError: a mangled name, with two underscores
            raise BadArguments(f"{task} cannot have such parameters: {error}") from error
        self._write = writer()
        nullable = any(field.type not in _NEVER_NULL for field in fields.values())
        self.encode: Callable[[Any], bytes] = self._encode if nullable else self._write
        self._by_name: Callable[[Any], dict[str, Any]] = msgspec.structs.asdict
        self._optional, self._unset = bool(optional), msgspec.UNSET
        self._wrong = msgspec.ValidationError
        self._unreadable = (msgspec.DecodeError, UnicodeDecodeError)  # a ValidationError is a DecodeError

    def _encode(self, arguments: Any) -> bytes:
        """Return the body; null may only stand for None. Raises msgspec's or the model's error, and ValueError."""
        body = self._write(arguments)
        if b"null" in body and body.count(b"null") != list(arguments.values()).count(None):
            _refuse_nan(arguments)
        return body

    def decode(self, body: bytes, /) -> dict[str, Any]:
        """Return the arguments in the body. Misfit; BadBody if the body is not JSON."""
        try:
            arguments = self._by_name(self.read(body))
        except self._unreadable as error:
            raise self._reason(error) from None
        if self._optional:
            unset = self._unset
            return {name: value for name, value in arguments.items() if value is not unset}
        return arguments

    def _reason(self, error: Exception) -> Exception:
        """Return the error to raise for a body that cannot be read."""
        if isinstance(error, self._wrong):
            return _misfit(str(error))
        return BadBody(f"the body holds no arguments: {error}")


def writer() -> Callable[[Any], bytes]:
    """Return the function that writes a value as JSON.

    It raises msgspec's or the model's error, and ValueError for nan and infinity in a model that writes them as null.
    """
    import msgspec

    def plain(value: Any) -> Any:
        """Write a value that msgspec does not know."""
        write = getattr(value, "model_dump_json", None)
        if write is None:
            raise TypeError(f"{type(value).__qualname__} is not a type that JSON can be made of")
        text: str = write(by_alias=True, round_trip=True)
        if "null" in text and _lost(json.loads(text), value.model_dump(by_alias=True, round_trip=True)):
            raise ValueError("Out of range float values are not JSON compliant")  # as json says it
        return msgspec.Raw(text.encode())

    return msgspec.json.Encoder(enc_hook=plain).encode


def _lost(written: Any, value: Any) -> bool:
    """Whether a null in the JSON of a value stands for nan or infinity. Those that are written as text are not lost."""
    if written is None:
        return isinstance(value, float) and not math.isfinite(value)
    if isinstance(written, dict) and isinstance(value, dict):  # in one order; the names may differ, as JSON's are text
        return any(map(_lost, written.values(), value.values()))
    return isinstance(written, list) and isinstance(value, _SEVERAL) and any(map(_lost, written, value))


def result_writer() -> Callable[[Any], bytes]:
    """Return a `writer` that raises ValueError for nan and infinity, like json. msgspec would write them as null."""
    write = writer()

    def written(value: Any) -> bytes:
        body = write(value)
        if b"null" in body:
            _refuse_nan({"": value})
        return body

    return written


def _made(wanted: Any, value: Any) -> Any:
    """Make a value of a type that msgspec does not know, from plain values."""
    import msgspec

    read = getattr(wanted, "model_validate_json", None)
    if read is None:
        raise TypeError(f"{getattr(wanted, '__qualname__', wanted)} is not a type that can be made of JSON")
    return read(msgspec.json.encode(value))


def _misfit(message: str) -> Misfit:
    """Return the error of the argument that a message of msgspec names."""
    if missing := _MISSING.match(message):
        return Misfit(missing[1], "missing")
    if unknown := _UNKNOWN.match(message):
        return Misfit(unknown[1], "unknown")
    place = _PLACE.search(message)
    if place is None:
        return Misfit(None, message)
    return Misfit(place[1], message if place[2] else message[: place.start()])  # a part of it, or the argument itself


def _refuse_nan(arguments: dict[str, Any]) -> None:
    """Raise ValueError for nan and infinity: msgspec wrote them as null, and they would be read as None."""
    import msgspec

    for value in arguments.values():
        found = msgspec.to_builtins(value, enc_hook=lambda _: None, str_keys=True)
        json.dumps(found, allow_nan=False)
