"""How a fault is planted, and the table of all that are."""

import sys
from collections.abc import Callable
from typing import NamedTuple

from pywheel.core import _pure
from pywheel.stores.memory.store import MemoryStore
from pywheel.stores.sqlite.store import SqliteStore

CORES = {_pure, sys.modules.get("pywheel.core._wheel", _pure)}
FAULTS: dict[str, "Fault"] = {}


class Fault(NamedTuple):
    """One fault, the test that must find it, and what that says then."""

    plant: Callable[[], object]
    test: str
    says: str  # the statement that fails
    environment: dict[str, str]


def found_by(test, says, **environment):
    """Put a fault into the table, by the name of its function."""

    def kept(plant):
        assert plant.__name__ not in FAULTS
        FAULTS[plant.__name__] = Fault(plant, f"tests/{test}", says, environment)
        return plant

    return kept


def instead(old, new):
    """Have every module of the product that knows something by a name know something else by it."""
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "pywheel"]:
        for name, value in list(vars(module).items()):
            if value is old:
                setattr(module, name, new)


def function(real, wrong):
    """Replace a function by `wrong(real, ...)`."""
    instead(real, lambda *args, **kwargs: wrong(real, *args, **kwargs))


def method(owner, name, wrong):
    """Replace a method by `wrong(real, self, ...)`."""
    real = getattr(owner, name)
    setattr(owner, name, lambda self, *args, **kwargs: wrong(real, self, *args, **kwargs))


def wheels(name, wrong):
    """Replace a method of all wheels that have it, native or not, by `wrong(real, self, ...)`; return their classes."""
    kinds = [kind for module in CORES for kind in (module.TimingWheel, module.KeyWheel) if hasattr(kind, name)]
    made = [_with(kind, name, wrong) for kind in kinds]
    for kind, wheel in zip(kinds, made, strict=True):
        instead(kind, wheel)
    return made


def _with(kind, name, wrong):
    class Wheel(kind):
        pass

    method(Wheel, name, wrong)
    return Wheel


def command(kind, asked=None, told=None):
    """Have stores apply `asked(command)` instead of a command, nothing if that is None, and tell `told(...)` of it.

    `told` gets the store, the command and its outcome.
    """
    for store in (MemoryStore, SqliteStore):
        method(store, "apply", lambda real, self, commands: _applied(real, self, commands, kind, asked, told))


def _applied(real, store, commands, kind, asked, told):
    sent = [asked(one) if asked and isinstance(one, kind) else one for one in commands]
    outcomes = iter(real(store, [one for one in sent if one is not None]))
    found = [None if one is None else next(outcomes) for one in sent]
    return [
        told(store, one, outcome) if told and isinstance(one, kind) else outcome
        for one, outcome in zip(commands, found, strict=True)
    ]
