"""The arguments of a task: a JSON object by parameter name, in the body of its job.

A put reads its arguments back at once, as the handler will: arguments that the handler could not read are not put.
msgspec does this where it is installed, for every type that it knows; without it json does, for plain types.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, Protocol

from .._errors import BadArguments, BadBody, NoKey
from ..jobs.bodies import is_encrypted, key_of

_UNWRITABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)


class Field(NamedTuple):
    """A parameter whose argument is in the body."""

    type: Any
    required: bool
    positional: bool = True  # whether it may be given by position


class Misfit(Exception):
    """An error in one argument; `argument` is None for an error in all of them together."""

    def __init__(self, argument: str | None, what: str) -> None:
        super().__init__(argument, what)
        self.argument = argument
        self.what = what


class Codec(Protocol):
    """Writes arguments into a body, and reads them."""

    @property
    def encode(self) -> Callable[[Any], bytes]:
        """The function that returns the body. For a value that it cannot write it raises the library's error."""

    @property
    def read(self) -> Callable[[bytes], object]:
        """The function that reads a body like `decode`, but as quickly as it can. It raises the library's error."""

    def decode(self, body: bytes, /) -> dict[str, Any]:
        """Return the arguments in the body, each as its parameter's type. Misfit; BadBody if the body is not JSON."""


class Arguments:
    """The arguments that the function of a task takes from the body, by parameter name.

    Args:
        task: the task's topic.
        fields: the parameters.
        others: the names of the parameters that are not in the body.

    Raises:
        BadArguments: a parameter has a type that cannot be read from JSON.
    """

    def __init__(self, task: str, fields: Mapping[str, Field], others: Collection[str] = ()) -> None:
        self.task = task
        self.fields = dict(fields)
        self._others = others
        self._by_place = tuple(name for name, field in fields.items() if field.positional)
        self._codec = _codec(self)
        self.encoded = _encoder(self._codec, self.read_back)
        """Returns the body of arguments. BadArguments for arguments that the handler could not read."""

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return all arguments by name. BadArguments for too many of them, and for one that is given twice."""
        if len(args) > len(self._by_place):
            most = len(self._by_place)
            arguments = f"{most} positional argument{'s' if most != 1 else ''}"
            raise BadArguments(f"{self.task} takes {arguments}, {len(args)} were given")
        named = dict(zip(self._by_place, args))  # noqa: B905  (the rest is given by name, or left out)
        if kwargs and not named.keys().isdisjoint(kwargs):
            raise BadArguments(f"argument {min(named.keys() & kwargs)!r} of {self.task} is given twice")
        named.update(kwargs)
        return named

    def read_back(self, arguments: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        """Return the body, and the arguments as `decoded` reads them. BadArguments if `decoded` could not read them."""
        try:
            body = self._codec.encode(arguments)
            return body, self._codec.decode(body)
        except Misfit as misfit:
            raise self._refusal(misfit) from None
        except _UNWRITABLE as error:
            raise self._refusal(self._unwritable(arguments, error)) from error

    def decoded(self, body: bytes) -> dict[str, Any]:
        """Return the arguments in a body; missing ones are left to their defaults.

        Raises:
            BadArguments: they do not fit.
            BadBody: the body is not JSON, or nested too deep; NoKey, a BadBody, if it is encrypted.
        """
        if body in (b"null", b""):  # put without a body: no arguments
            body = b"{}"
        try:
            return self._codec.decode(body)
        except Misfit as misfit:
            raise self._refusal(misfit) from None
        except RecursionError:
            raise BadBody(f"the body of {self.task} is nested too deep") from None
        except BadBody:
            if is_encrypted(body):
                raise NoKey(f"arguments of {self.task} are encrypted, with key {key_of(body)!r:.80}") from None
            raise

    def _unwritable(self, arguments: dict[str, Any], error: Exception) -> Misfit:
        """Return the error of the first argument that cannot be written."""
        for name, value in arguments.items():
            try:
                self._codec.encode({name: value})
            except Exception as wrong:  # noqa: BLE001  (as it was raised for all of them)
                return Misfit(name, f"{wrong}")
        return Misfit(None, f"{error}")

    def _refusal(self, misfit: Misfit) -> BadArguments:
        name, what = misfit.argument, misfit.what
        if name is None:
            return BadArguments(f"the arguments of {self.task} do not fit: {what:.1000}")
        field = self.fields.get(name)
        if name in self._others:
            return BadArguments(f"{name!r} of {self.task} comes from the queue, and not from a put")
        if field is None:
            known = ", ".join(self.fields) or "none"
            return BadArguments(f"{self.task} takes no argument {name!r:.80}: it takes {known:.400}")
        if what == "missing":
            return BadArguments(f"argument {name!r} of {self.task} is missing: {type_name(field.type)}")
        return BadArguments(f"argument {name!r} of {self.task} must be {type_name(field.type)}: {what:.1000}")


def type_name(annotation: Any) -> str:
    """Return the name of a type as a program writes it."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")


def encoded_result(value: Any) -> Any:
    """Return a task's result as JSON bytes, if msgspec can write it; otherwise unchanged, for a later check.

    None and bytes stay as they are. For an awaitable it returns an awaitable of its encoded result.
    """
    if value is None or isinstance(value, bytes):
        return value
    if inspect.isawaitable(value):
        return _encoded_later(value)
    write = _writer()
    try:
        return value if write is None else write(value)
    except _UNWRITABLE:
        return value


async def _encoded_later(value: Awaitable[Any]) -> Any:
    return encoded_result(await value)


def _encoder(
    codec: Codec, read_back: Callable[[dict[str, Any]], tuple[bytes, object]]
) -> Callable[[dict[str, Any]], bytes]:
    """Return a quick encoder of arguments, for every put. Only after an error it looks for the wrong argument."""
    encode, read = codec.encode, codec.read

    def encoded(arguments: dict[str, Any]) -> bytes:
        try:
            body = encode(arguments)
            read(body)
        except Exception:  # noqa: BLE001  (whatever the library raises)
            return read_back(arguments)[0]
        return body

    return encoded


def _codec(arguments: Arguments) -> Codec:
    if _there():
        from .arguments_typed import TypedCodec

        return TypedCodec(arguments.task, arguments.fields)
    from .arguments_plain import PlainCodec

    return PlainCodec(arguments.task, arguments.fields)


@functools.cache
def _writer() -> Callable[[Any], bytes] | None:
    if not _there():
        return None
    from .arguments_typed import result_writer

    return result_writer()


def _there() -> bool:
    """Whether msgspec is installed. It is imported when a task is used first."""
    try:
        import msgspec  # noqa: F401
    except ImportError:
        return False
    return True
