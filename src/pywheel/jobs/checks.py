"""Checks of numbers, texts and names. Each raises BadJob, or `error`, and says what was expected."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from .._errors import BadJob, ExtraMissing, PywheelError

MOST: Final = 2**63 - 1
"""The largest id, and the largest number that a store keeps."""
FURTHEST: Final = 2**62
"""The bound of times and durations: two of them can be added in 64 bits."""
LONGEST_NAME: Final = 16_384  # characters of a topic or a key
_NEAREST: Final = -FURTHEST
_TEXTS_MOST: Final = 65_536  # characters of all headers of a job


def name(value: Any, what: str, *, error: type[PywheelError] = BadJob) -> str:
    """Return a valid topic or key. BadJob for anything else."""
    if not isinstance(value, str):
        raise error(f"a {what} must be a str, not {type(value).__name__}")
    if not value or len(value) > LONGEST_NAME:
        raise error(f"a {what} must have 1 to {LONGEST_NAME} characters, not {len(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as wrong:
            raise error(f"a {what} must be valid Unicode: {wrong.reason}") from wrong
    return value


def an_id(value: Any) -> int:
    """Return an int of any size, which may or may not be an id. BadJob for anything else, bool included."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadJob(f"an id must be a whole number, not {shown(value)}")
    return value


def whole(value: Any, name: str, most: int, least: int = 1, *, error: type[PywheelError] = BadJob) -> int:
    """Return an int from `least` to `most`. BadJob for anything else, bool included."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise error(f"{name} must be a whole number from {least} to {most}, not {shown(value)}")
    return value


def number(value: Any, name: str, least: float, most: float, *, error: type[PywheelError] = BadJob) -> float:
    """Return a number from `least` to `most`. BadJob for anything else, bool and nan included."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise error(f"{name} must be a number from {least:g} to {most:g}, not {shown(value)}")
    return value


def integer(value: Any, name: str) -> None:
    """Check that a value is a time or a duration: an int of 62 bits."""
    if type(value) is not int or not _NEAREST < value < FURTHEST:
        raise BadJob(f"{name} must be a whole number of 62 bits, not {value!r:.40}")


def text(value: Any, name: str) -> None:
    """Check that a value is text that every store can keep."""
    if type(value) is not str:
        raise BadJob(f"{name} must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise BadJob(f"{name} must be text without NUL, not {value!r:.40}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadJob(f"{name} must be text that UTF-8 can encode, not {value!r:.40}") from None


def text_by_name(values: Mapping[Any, Any], name: str) -> None:
    """Check the names and the values of a mapping."""
    if type(values) is not dict and not isinstance(values, Mapping):
        raise BadJob(f"{name}s must be text by name, not {values!r:.40}")
    for one, value in values.items():
        text(one, f"the name of a {name}")
        text(value, f"a {name}")
    length = sum(map(len, values)) + sum(map(len, values.values()))
    if length > _TEXTS_MOST:
        raise BadJob(
            f"{name}s have up to {_TEXTS_MOST} characters in all, not {length}: put what is long into the body"
        )


def signature(function: Callable[..., Any], *, wrapped: bool = True) -> inspect.Signature:
    """Return the signature of a function, even if its types cannot be resolved; without `wrapped` a wrapper's own."""
    if sys.version_info >= (3, 14):  # annotations are evaluated on access
        from annotationlib import Format

        return inspect.signature(function, follow_wrapped=wrapped, annotation_format=Format.FORWARDREF)
    return inspect.signature(function, follow_wrapped=wrapped)


def callable_with(function: Callable[..., Any], count: int, wanted: str) -> None:
    """Check that a function takes `count` arguments. TypeError. A built-in function without a signature passes."""
    try:
        its = signature(function, wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        its.bind(*[None] * count)
    except TypeError as error:
        name = getattr(function, "__qualname__", type(function).__name__)
        raise TypeError(f"{wanted}, and {name:.80} is none: {error}") from None


def shown(value: Any) -> str:
    """Return a value in a few characters, even an int of a million digits."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return f"{value!r:.40}"


def needed(module: str, extra: str) -> Any:
    """Return a module that an extra installs. ExtraMissing if it cannot be imported."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        missing = isinstance(error, ModuleNotFoundError) and error.name in (package, module)
        why = "is not installed" if missing else f"cannot be imported ({error})"
        raise ExtraMissing(f"{package} {why}: pip install 'pywheel-timer[{extra}]'") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the known name most like it, or nothing."""
    import difflib  # most programs never need it

    near = difflib.get_close_matches(name, list(known), 1)
    return f", did you mean {near[0][:80]}?" if near else ""
