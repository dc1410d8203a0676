"""The import of a program by ``module:name``, and the choice of its handlers, in this process and its children."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._errors import BadOption
from ..jobs.checks import did_you_mean, name
from ..jobs.handler import Handler
from ..jobs.keyring import Keyring

_importing = False


def load(target: str) -> Any:
    """Return the program, with a store and handlers, that ``module:name`` names. Also search the working directory.

    Raises:
        BadOption: the target has another form, there is no such module or name, or it is not a program.
    """
    module_name, name = named(target)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise BadOption(f"there is no module {error.name}: run this where it can be imported") from error
    if not hasattr(module, name):
        raise BadOption(f"there is no {name[:80]} in {module_name}{did_you_mean(name, vars(module))}")
    program = getattr(module, name)
    if not hasattr(program, "events") or not hasattr(program, "handlers"):  # asking for its store might open the store
        raise BadOption(f"{name[:80]} in {module_name} is not a JobQueue")
    give_keys(program)
    return program


def named(target: str) -> tuple[str, str]:
    """Return the module and the name in ``module:name``. BadOption if the target has another form."""
    module, _, name = target.partition(":")
    if not module or not name:
        raise BadOption(f"{target[:80]!r} names no queue: write it like shop.jobs:queue")
    _refuse_paths(module, name)
    return module, name


def give_keys(program: Any) -> None:
    """Give a program's queue the keys of PYWHEEL_KEYS, if it has none of its own. BadOption if they are no keys."""
    keyring = Keyring.of_environment()
    if keyring is not None and hasattr(program, "calls"):
        program.calls.use_keys(keyring)


def _refuse_paths(module: str, name: str) -> None:
    """Raise BadOption for a file name, or a relative module name."""
    if not (module.startswith(".") or module.endswith(".py") or "/" in module):
        return
    path = Path(module.removesuffix(".py") if "/" in module or module.endswith(".py") else module.lstrip("."))
    inside = path.parts and all(part.isidentifier() for part in path.parts)
    where = "" if inside else f"change into {str(path.parent)[:80]} and "
    right = ".".join(path.parts) if inside else path.name
    raise BadOption(f"{module[:80]!r} is not a module: {where}write {right[:80]}:{name[:80]}")


def chosen(handlers: Mapping[str, Handler], topics: Collection[str] | None) -> dict[str, Handler]:
    """Return the handlers of these topics, or all for None.

    Raises:
        BadOption: there are no handlers, or none for one of the topics, or no topic is given.
    """
    if not handlers:
        raise BadOption("there are no handlers: register one with @queue.handler(topic)")
    if topics is None:
        return dict(handlers)
    if isinstance(topics, str | bytes) or not isinstance(topics, Collection):
        raise TypeError(f"topics must be a collection of names, not {topics!r:.40}")
    there = f": there are {', '.join(handlers)[:400]}"
    if not topics:
        raise BadOption(f"no topic is given{there}")
    for topic in topics:
        if name(topic, "topic") not in handlers:
            raise BadOption(f"no handler for {topic[:80]!r}{did_you_mean(topic, handlers) or there}")
    return {topic: handlers[topic] for topic in topics}


def interpreter() -> list[str]:
    """Return the command that starts another interpreter with the options of this one."""
    options: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *options]


def end_of(code: int | None) -> str:
    """Return in words how a process with this return code, as `subprocess` has it, ended."""
    if code is None or code >= 0:
        return f"exit code {code}"
    names = {number.value: number.name for number in signal.Signals}  # few real-time signals have one
    return f"killed by {names.get(-code, f'signal {-code}')}"


@contextmanager
def importing() -> Iterator[None]:
    """Refuse workers within this context: a child that imports a program could start it again, without end."""
    global _importing
    _importing = True
    try:
        yield
    finally:
        _importing = False


def no_worker_while_importing() -> None:
    """Raise BadOption in a process that a worker or a supervisor has started to import a program."""
    if _importing:
        raise BadOption("this program starts a worker when it is imported: do that under if __name__ == '__main__'")
