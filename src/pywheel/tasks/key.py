"""The keys of a task's jobs: made from arguments as the task's function gets them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from .._errors import BadArguments, BadJob, BadOption
from ..jobs.checks import name as checked
from .arguments import Arguments
from .hints import parameters
from .providers import provided
from .signature import Asked, Signature


class TaskKey:
    """A function that makes a key from some of a task's arguments. It gets them as the task's function would.

    A missing argument has the default of the task's function, or else that of the key's function.

    Raises:
        TypeError: it is not a function.
        BadOption: its parameters are not arguments of the task that can be given by name.
    """

    def __init__(self, function: Callable[..., str], signature: Signature) -> None:
        if not callable(function):
            raise TypeError(
                f"key must be a str, or a function of the task's arguments that returns one, not {function!r:.40}"
            )
        self._function = function
        self._signature = signature
        self._form = inspect.Signature(list(parameters(function).values()))
        self._names: list[str] = []
        self._partly: tuple[Asked, Arguments] | None = None
        for name, parameter in self._form.parameters.items():
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise BadOption(
                    f"the key of {signature.task} gets its arguments by name, and {name!r} stands before a /"
                )
            if name in signature.parameters:
                self._names.append(name)
            elif parameter.default is Parameter.empty:
                raise BadOption(
                    f"the key of {signature.task} is made of {str(parameter)!r:.80}, which is not an argument of it"
                )

    def of_put(self, arguments: Mapping[str, Any]) -> str:
        """Return the key of a job with these arguments, as they were read from its body. BadJob if it is no key."""
        default = self._default
        made_of = {name: arguments[name] if name in arguments else default(name) for name in self._names}
        return checked(self._function(**made_of), f"key of {self._signature.task}")

    def of_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the key that a put with these arguments makes. Arguments without a part in the key may be missing.

        BadArguments.
        """
        arguments = self._signature.asked().arguments
        given = arguments.named(args, dict(kwargs)) if args else kwargs
        for name in given:
            if name not in arguments.fields:
                raise self._refusal(f"{name!r} is not an argument of the task")
        partly = self._arguments()
        made_of = {name: given[name] for name in self._names if name in given}
        return self.of_put(partly.decoded(partly.encoded(made_of)))

    def _default(self, name: str) -> Any:
        if name not in self._signature.asked().arguments.fields:
            raise BadJob(f"the key of {self._signature.task} is made of {name!r}, which is not put")
        for parameter in (self._signature.parameters[name], self._form.parameters[name]):
            if parameter.default is not Parameter.empty and parameter.default is not provided:
                return parameter.default
        raise self._refusal(f"missing a required argument: {name!r}")

    def _arguments(self) -> Arguments:
        """Return a reader of those arguments that the key is made of; each may be missing."""
        asked = self._signature.asked()
        if self._partly is None or self._partly[0] is not asked:
            fields = asked.arguments.fields
            some = {name: fields[name]._replace(required=False) for name in self._names if name in fields}
            others = [name for name in self._names if name not in fields]
            self._partly = asked, Arguments(self._signature.task, some, others)
        return self._partly[1]

    def _refusal(self, what: str) -> BadArguments:
        return BadArguments(f"the key of {self._signature.task} is made of {', '.join(self._names)}: {what}")
