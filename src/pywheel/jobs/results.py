"""Results: handlers' values as they are kept, and the outcome of a job."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._errors import BadBody, BadJob, BadResult
from .bodies import decoded, encoded
from .commands import RESULT_MOST
from .job import State


class Result(NamedTuple):
    """The outcome of a job so far."""

    id: int
    state: State
    result: bytes | None = None  # of its last attempt, if its handler's results are kept
    error: str | None = None  # the last error of its attempts

    @property
    def ended(self) -> bool:
        """Whether the job is done, dead or cancelled."""
        return not self.state.live

    @property
    def _why(self) -> str:
        """The reason why there is no result, or the way to it."""
        if self.state.live:
            return " yet: wait for it with queue.wait"
        if self.state is State.DONE:
            return ": results are kept by handler(results=True)"
        return ": only a job that is done has one"

    def json(self) -> Any:
        """Return the result's JSON value.

        Raises:
            BadBody: there is no result, or it is not JSON. NoKey, a BadBody, if it is encrypted.
        """
        if self.result is None:
            raise BadBody(f"job {self.id} is {self.state} and has no result{self._why}")
        return decoded(self.result, f"the result of job {self.id}")


def result_of(value: Any) -> bytes:
    """Return a handler's value as it is kept: bytes as they are, anything else as JSON.

    Raises:
        BadResult: JSON cannot express it, or it is longer than RESULT_MOST. The handler's job is not tried again: its
            work is done, and it would return the same value.
    """
    try:
        result = encoded(value)
    except BadJob as error:
        raise BadResult(
            f"the handler returned {type(value).__name__}, which cannot be written as JSON ({error.__cause__}): "
            "return bytes or plain data, or register it without results=True"
        ) from None
    if len(result) > RESULT_MOST:
        raise BadResult(
            f"the handler returned {len(result)} bytes, and {RESULT_MOST} are kept: store them elsewhere, return where"
        )
    return result
