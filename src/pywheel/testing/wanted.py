"""The put that a test expects: a topic and its body, or a task and its arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from .._errors import BadArguments, BadBody, BadOption
from ..jobs.bodies import encoded
from ..jobs.durations import Duration, delay_ms
from ..jobs.handler import Handler
from ..jobs.job import Job
from ..tasks.task import AnyTask
from .puts import PutJob, said

_NO_JSON: Final = object()


def topic_of(wanted: object, handlers: dict[str, Handler]) -> str:
    """Return the topic that a name, a task, or a handler's function stands for.

    Raises:
        BadOption: the function handles no topic, or several.
    """
    if isinstance(wanted, str):
        return wanted
    if isinstance(wanted, AnyTask):
        return wanted.topic
    topics = [topic for topic, handler in handlers.items() if handler.function is wanted]
    if len(topics) != 1:
        number = "no topic is" if not topics else f"{len(topics)} topics are"
        raise BadOption(f"{number} handled by {wanted!r:.80}: give the topic")
    return topics[0]


def refuse_ambiguous(task: AnyTask[..., ..., Any], **said: object) -> None:
    """Raise BadOption if an option has the name of a task's argument: otherwise the wrong test might pass."""
    arguments = task._signature.asked().arguments.fields
    for name in said:
        if said[name] is not None and name in arguments:
            raise BadOption(
                f"{name}= may be the argument of {task.topic}, or said of its put: give the argument by its place, "
                "and look at what assert_put returns for the other"
            )


class Wanted:
    """A put as a test describes it. Values that the test does not give match any.

    Args:
        topic: the job's topic.
        task: the task to which the arguments belong; None: they describe a body.
        args: the task's arguments; or the body, at most one.
        kwargs: the task's arguments by name; or fields of the body.
        delay: how long after the put the job was due.
        key: the job's key.

    Raises:
        BadOption: the arguments make no sense.
    """

    def __init__(
        self,
        topic: str,
        task: AnyTask[..., ..., Any] | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        delay: Duration | None,
        key: str | None,
    ) -> None:
        self._topic = topic
        self._delay = None if delay is None else delay_ms(delay)
        self._key = key
        self._content: Callable[[Job], bool]
        self._said: list[str]
        if task is not None:
            self._content, self._said = _of_task(task, args, kwargs)
        else:
            self._content, self._said = _of_body(args, kwargs)

    def __str__(self) -> str:
        words = [f"topic {self._topic!r}", *self._said]
        words += [] if self._delay is None else [f"due {said(self._delay)}"]
        words += [] if self._key is None else [f"key {self._key!r}"]
        return ", ".join(words)

    def fits(self, put: PutJob) -> bool:
        """Whether a put matches."""
        return (
            put.job.topic == self._topic
            and self._delay in (None, put.delay)
            and self._key in (None, put.job.key)
            and self._content(put.job)
        )


def _of_task(
    task: AnyTask[..., ..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[[Job], bool], list[str]]:
    """Return the check of a job's arguments, as the function would get them, and its words."""
    signature = task._signature
    arguments = signature.asked().arguments
    given = arguments.named(args, kwargs) if args else kwargs
    for name in given.keys() - arguments.fields.keys():
        known = ", ".join(arguments.fields) or "none"
        raise BadArguments(f"{task.topic} takes no argument {name!r:.80} from a put: it takes {known:.400}")
    defaults = {name: signature.parameters[name].default for name in given}

    def content(job: Job) -> bool:
        if not given:
            return True
        try:
            found = defaults | task.arguments(job)
        except (BadArguments, BadBody):  # put by the topic's name, not by the task
            return False
        return all(found[name] == value for name, value in given.items())

    return content, [f"{name} {value!r:.80}" for name, value in given.items()]


def _of_body(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Callable[[Job], bool], list[str]]:
    """Return the check of a job's body, and its words."""
    if len(args) > 1 or (args and kwargs):
        raise BadOption("a topic's job has one body: give that, or fields of it by name")
    if args:
        body = encoded(args[0])
        value = _json(body)
        words = [f"body {body.decode('utf-8', 'backslashreplace'):.200}"]
        return lambda job: job.body == body or value == _json(job.body) != _NO_JSON, words
    fields = {name: _json(encoded(value)) for name, value in kwargs.items()}
    return lambda job: not fields or _has(_json(job.body), fields), [
        f"{name} {value!r:.80}" for name, value in kwargs.items()
    ]


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return _NO_JSON


def _has(value: Any, fields: dict[str, Any]) -> bool:
    return isinstance(value, dict) and all(name in value and value[name] == wanted for name, wanted in fields.items())
