"""The arguments of a task: a JSON object by parameter name, in the body of its job.

What is put is read back at once, by what reads it at the handler: what could not be handled is not put. msgspec
does it where it is installed, for every type that it knows; without it json does, for plain types.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, Protocol

from .._errors import BadArguments, BadBody, NoKey
from ..jobs.bodies import is_encrypted, key_of

__all__ = ["Arguments", "Codec", "Field", "Misfit", "encoded_result", "type_name"]

_UNWRITABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)


class Field(NamedTuple):
    """A parameter whose argument is in the body."""

    type: Any
    required: bool
    positional: bool = True  # whether it may be given by its place


class Misfit(Exception):
    """What is wrong with the argument of that name; None: with all of them together."""

    def __init__(self, argument: str | None, what: str) -> None:
        super().__init__(argument, what)
        self.argument = argument
        self.what = what


class Codec(Protocol):
    """Writes arguments into a body, and reads them."""

    @property
    def encode(self) -> Callable[[Any], bytes]:
        """What returns the body. It raises whatever the library does, for a value that it cannot write."""

    @property
    def read(self) -> Callable[[bytes], object]:
        """What reads a body as `decode` does, as quickly as it can. It raises whatever the library does."""

    def decode(self, body: bytes, /) -> dict[str, Any]:
        """Return the arguments that the body has, each as its parameter's type. Misfit; BadBody if it is no JSON."""


class Arguments:
    """What the function of a task takes from the body, by parameter name.

    Args:
        task: its topic.
        fields: the parameters.
        others: the names of those that are not in the body.

    Raises:
        BadArguments: a parameter is of a type that no JSON can be made into.
    """

    def __init__(self, task: str, fields: Mapping[str, Field], others: Collection[str] = ()) -> None:
        self.task = task
        self.fields = dict(fields)
        self._others = others
        self._by_place = tuple(name for name, field in fields.items() if field.positional)
        self._codec = _codec(self)
        self.encoded = _encoder(self._codec, self.read_back)
        """Returns the body of arguments. BadArguments for what the handler could not read."""

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
        """Return the body, and the arguments as `decoded` gives them. BadArguments for what that could not read."""
        try:
            body = self._codec.encode(arguments)
            return body, self._codec.decode(body)
        except Misfit as misfit:
            raise self._refusal(misfit) from None
        except _UNWRITABLE as error:
            raise self._refusal(self._unwritable(arguments, error)) from error

    def decoded(self, body: bytes) -> dict[str, Any]:
        """Return the arguments in a body; those that it has not are left to their defaults.

        Raises:
            BadArguments: they do not fit.
            BadBody: it is no JSON; NoKey, which is one too, if it is encrypted.
        """
        if body in (b"null", b""):  # put without a body, and so without arguments
            body = b"{}"
        try:
            return self._codec.decode(body)
        except Misfit as misfit:
            raise self._refusal(misfit) from None
        except BadBody:
            if is_encrypted(body):
                raise NoKey(f"arguments of {self.task} are encrypted, with key {key_of(body)!r:.80}") from None
            raise

    def _unwritable(self, arguments: dict[str, Any], error: Exception) -> Misfit:
        """Return which of them cannot be written."""
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
    """Return how a program writes a type."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")


def encoded_result(value: Any) -> Any:
    """Return what a task returned as JSON, if msgspec can write it; else as it is, for whoever keeps it to judge.

    None and bytes stay as they are; of something to be awaited it returns what gives that of its result.
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
    """Return what encodes arguments. On the way of every put: what is wrong with them is looked for only then."""
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
    """Whether msgspec is installed; it is loaded with the first task that is used."""
    try:
        import msgspec  # noqa: F401
    except ImportError:
        return False
    return True
