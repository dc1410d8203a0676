"""The signature of a task's function: arguments, the job, and values that its program provides."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .._errors import BadOption
from ..jobs.job import Job
from .arguments import Arguments, Field
from .hints import bare, hints, parameters
from .providers import Provider, Providers, provided

_EMPTY = inspect.Parameter.empty


class Asked(NamedTuple):
    """The parameters of a function, by where they come from."""

    arguments: Arguments
    jobs: tuple[str, ...]  # the parameters that get the job
    provided: tuple[tuple[str, Provider | None], ...]  # None: this process has no provider for it


class Signature:
    """The signature of a function. Types are resolved on first use, when all of them are defined.

    Raises:
        BadOption: its parameters have no names, or take any number of arguments.
    """

    def __init__(self, function: Callable[..., Any], task: str, providers: Providers) -> None:
        self.task = task
        try:
            self.parameters = parameters(function)
        except ValueError as error:
            raise BadOption(f"{task} cannot be a task: its arguments are unknown: {error}") from error
        self.providers = providers
        self._function = function
        self._asked: Asked
        self._of = -1  # the number of providers when `_asked` was made
        for parameter in self.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise BadOption(f"every argument of a task needs a name: {str(parameter)!r} of {task} has none")
        if _is_method(function, self.parameters):
            raise BadOption(
                f"{task} is a method, and its jobs would have no self: make it a @staticmethod, above the task"
            )

    def asked(self) -> Asked:
        """Return the parameters by where they come from, with the providers known by now.

        Raises:
            BadOption: an annotation cannot be resolved, or a type cannot be read from JSON.
        """
        if self._of != self.providers.count:
            count = self.providers.count
            self._asked, self._of = self._read(), count
        return self._asked

    def _read(self) -> Asked:
        types = hints(self._function)
        jobs: list[str] = []
        given: list[tuple[str, Provider | None]] = []
        fields: dict[str, Field] = {}
        for name, parameter in self.parameters.items():
            annotation = types.get(name, Any)
            wanted = bare(annotation)  # a parameter that a plain call may omit: `job: Job | None = None`
            provider = self.providers.wanted(name, wanted)
            unknown = parameter.annotation is _EMPTY or isinstance(annotation, Exception)
            if wanted is Job or (name == "job" and unknown):
                jobs.append(name)
            elif provider is not None or parameter.default is provided:
                given.append((name, provider))
            elif isinstance(annotation, Exception):
                raise BadOption(
                    f"the type of argument {name!r} of {self.task} cannot be found ({annotation}): "
                    "have it in the module of the task, and not only under TYPE_CHECKING"
                )
            else:
                by_place = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
                fields[name] = Field(annotation, parameter.default is _EMPTY, by_place)
        others = {*jobs, *(name for name, _ in given)}
        return Asked(Arguments(self.task, fields, others), tuple(jobs), tuple(given))


def _is_method(function: Callable[..., Any], its: Mapping[str, inspect.Parameter]) -> bool:
    """Whether a function stands in a class and takes an instance first. A bound method has its instance already."""
    first = next(iter(its.values()), None)
    if first is None or first.name not in ("self", "cls") or first.annotation is not _EMPTY:
        return False
    parent = getattr(function, "__qualname__", "").rpartition(".")[0]
    return bool(parent) and not parent.endswith("<locals>")
