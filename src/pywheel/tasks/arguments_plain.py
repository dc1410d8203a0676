"""Arguments by the standard library's JSON, for plain types. Used where msgspec is not installed."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Literal, Union, get_args, get_origin

from .._errors import BadArguments, BadBody
from .arguments import Field, Misfit, type_name

Reader = Callable[[Any], Any]
"""Returns a value as its type. TypeError if it has another one."""

_write: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class PlainCodec:
    """Writes and reads the arguments of one task."""

    def __init__(self, task: str, fields: Mapping[str, Field]) -> None:
        self._readers: dict[str, Reader] = {}
        self._required = frozenset(name for name, field in fields.items() if field.required)
        for name, field in fields.items():
            try:
                self._readers[name] = _reader(field.type)
            except TypeError:
                raise BadArguments(
                    f"argument {name!r} of {task} is {type_name(field.type)}, which needs msgspec: "
                    "pip install 'pywheel-timer[tasks]'"
                ) from None

    def encode(self, arguments: Any, /) -> bytes:
        """Return the body. TypeError or ValueError for a value that JSON cannot express."""
        return _write(arguments).encode()

    def decode(self, body: bytes, /) -> dict[str, Any]:
        """Return the arguments in the body. Misfit; BadBody if the body is not JSON."""
        try:
            found = json.loads(body, parse_constant=_no_number)
        except ValueError as error:
            raise BadBody(f"the body holds no arguments: {error}") from None
        if not isinstance(found, dict):
            raise Misfit(None, f"Expected `object`, got `{_kind(found)}`")
        readers = self._readers
        for name, value in found.items():
            if name not in readers:
                raise Misfit(name, "unknown")
            try:
                found[name] = readers[name](value)
            except TypeError as error:
                raise Misfit(name, f"{error}") from None
        for name in self._required - found.keys():
            raise Misfit(name, "missing")
        return found

    read = decode


def _no_number(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")


def _reader(wanted: Any) -> Reader:
    """Return the reader of a type. TypeError for a type that is not plain."""
    if wanted is Any or wanted is object:
        return lambda value: value
    if wanted is float:
        return _float
    if wanted is None or wanted in (bool, int, str, list, dict, type(None)):
        return partial(_exactly, type(None) if wanted is None else wanted)
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin is Union or origin is types.UnionType:
        return partial(_any_of, [_reader(part) for part in parts], type_name(wanted))
    if origin is Literal:
        return partial(_literal, parts)
    if origin is list:
        return partial(_list, _reader(parts[0]))
    if origin is dict and parts[0] is str:
        return partial(_dict, _reader(parts[1]))
    raise TypeError(wanted)


def _exactly(wanted: type, value: Any) -> Any:
    if type(value) is not wanted:  # a bool is not an int here
        raise TypeError(f"Expected `{wanted.__name__}`, got `{_kind(value)}`")
    return value


def _float(value: Any) -> float:
    if type(value) is int:
        return float(value)
    return _exactly(float, value)  # type: ignore[no-any-return]  # as it was checked


def _any_of(readers: list[Reader], wanted: str, value: Any) -> Any:
    for read in readers:
        try:
            return read(value)
        except TypeError:
            continue
    raise TypeError(f"Expected `{wanted}`, got `{_kind(value)}`")


def _literal(values: tuple[Any, ...], value: Any) -> Any:
    if not any(type(known) is type(value) and known == value for known in values):
        raise TypeError(f"Expected one of {values!r:.200}, got {value!r:.40}")
    return value


def _list(read: Reader, value: Any) -> list[Any]:
    return [read(item) for item in _exactly(list, value)]


def _dict(read: Reader, value: Any) -> dict[str, Any]:
    return {name: read(item) for name, item in _exactly(dict, value).items()}


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__
