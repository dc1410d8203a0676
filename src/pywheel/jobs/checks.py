"""What numbers, names and references a caller may give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from .._errors import BadJob
from .commands import Ref
from .job import Job, State
from .values import number, shown, whole

__all__ = [
    "LONGEST_NAME",
    "MOST",
    "an_id",
    "did_you_mean",
    "name",
    "number",
    "reference",
    "state_of",
    "whole",
]

MOST: Final = 2**63 - 1
"""The largest id, and the largest number that a store keeps."""
LONGEST_NAME: Final = 16_384  # characters of a topic or a key


def name(value: Any, what: str) -> str:
    """Return a topic or a key. BadJob if it cannot be one."""
    if not isinstance(value, str):
        raise BadJob(f"a {what} must be a str, not {type(value).__name__}")
    if not value or len(value) > LONGEST_NAME:
        raise BadJob(f"a {what} must have 1 to {LONGEST_NAME} characters, not {len(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BadJob(f"a {what} must be valid Unicode: {error.reason}") from error
    return value


def reference(ref: Any) -> Ref:
    """Return what a store takes for a job: an id, or a pair (topic, key). BadJob if it is neither nor a Job.

    A negative id is that of a job that was put into a spool.
    """
    if isinstance(ref, Job):
        return ref.id
    if isinstance(ref, int):
        return whole(ref, "an id", MOST, -MOST)
    if isinstance(ref, tuple) and len(ref) == 2:
        return name(ref[0], "topic"), name(ref[1], "key")
    raise BadJob("a job is named by its id, by the Job, or by a pair (topic, key)")


def an_id(value: Any) -> int:
    """Return an int of any size, which may or may not be an id. BadJob for anything else, bool included."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadJob(f"an id is a whole number, not {shown(value)}")
    return value


def state_of(state: State | str) -> State:
    """Return a state. BadJob if there is none of that name."""
    try:
        return State(state)
    except ValueError:
        raise BadJob(f"{shown(state)} is no state: {', '.join(State)}") from None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about a name that is not known: the one that is most like it, or nothing."""
    import difflib  # most programs never need it

    near = difflib.get_close_matches(name, list(known), 1)
    return f", did you mean {near[0][:80]}?" if near else ""
