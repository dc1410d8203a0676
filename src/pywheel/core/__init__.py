"""Picks the implementation of the wheels, once: the native extension, or its pure-Python twin."""

import _thread
import sys
from importlib import import_module
from os import environ
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KeyWheel", "TimingWheel", "implementation"]

_MEND: Final = "reinstall pywheel-timer where a C compiler is found"
_MAIN_ONLY: Final = (
    "it serves a process's main interpreter alone, and this is a subinterpreter: use pywheel in the main one"
)


def _choose() -> Literal["native", "pure"]:
    """Return the implementation to use, by the environment. ImportError if a required one is missing."""
    pure = _is_set("PYWHEEL_PURE")
    if pure and _is_set("PYWHEEL_REQUIRE_NATIVE"):
        raise ImportError("PYWHEEL_PURE and PYWHEEL_REQUIRE_NATIVE contradict each other: unset one of them")
    if pure:
        return "pure"
    try:
        if _is_main_interpreter():
            import_module("._wheel", __name__)
            return "native"
        why, cause = _MAIN_ONLY, None
    except ImportError as error:
        why, cause = f"{error}: {_MEND}", error
    _do_without("wheel", why, cause)
    return "pure"


def takes_native(module: str, package: str) -> bool:
    """Return whether to use a native module above the wheel: the wheel is native, and the module can be imported.

    ImportError if it cannot be imported although PYWHEEL_REQUIRE_NATIVE demands it.
    """
    if implementation == "native":
        try:
            import_module(module, package)
        except ImportError as error:
            _do_without(f"{package}{module}", str(error), error)
        else:
            return True
    return False


def _do_without(what: str, why: str, cause: ImportError | None) -> None:
    """Warn that the pure-Python twin is used; ImportError if PYWHEEL_REQUIRE_NATIVE forbids that."""
    if _is_set("PYWHEEL_REQUIRE_NATIVE"):
        raise ImportError(f"PYWHEEL_REQUIRE_NATIVE is set and there is no native {what}: {why}") from cause
    if sys.implementation.name == "cpython":
        import warnings

        warnings.warn(
            f"there is no native {what} here, and the pure-Python one is many times slower: {why}, "
            "or set PYWHEEL_PURE=1 to use the pure one without this warning",
            RuntimeWarning,
            stacklevel=3,
        )


def _is_set(switch: str) -> bool:
    return environ.get(switch, "") not in ("", "0")


def _is_main_interpreter() -> bool:
    """Return whether this is the process's first interpreter; True if Python cannot say.

    A subinterpreter with a GIL of its own refuses the extension by itself. One without could load it. The extension
    would then be lost to the main interpreter, and the process may crash when the subinterpreter ends.
    """
    ask: Callable[[], bool] | None = getattr(_thread, "_is_main_interpreter", None)  # from 3.12 on
    if ask is not None:
        return ask()
    try:
        interpreters = import_module("_xxsubinterpreters")
    except ImportError:
        return True
    return bool(interpreters.get_current() == interpreters.get_main())


implementation: Final = _choose()

if TYPE_CHECKING or implementation == "native":
    from ._wheel import KeyWheel, TimingWheel
else:
    from ._pure import KeyWheel, TimingWheel
