"""Picks the implementation of the wheels, once: the native extension, or its pure-Python twin."""

import sys
from importlib import import_module
from os import environ
from typing import TYPE_CHECKING, Final, Literal

__all__ = ["KeyWheel", "TimingWheel", "implementation"]

_MEND: Final = "reinstall pywheel-timer where a C compiler is found"


def _choose() -> Literal["native", "pure"]:
    """Return which to use, as the environment says: ImportError if it cannot be had."""
    pure, native = (environ.get(name, "") not in ("", "0") for name in ("PYWHEEL_PURE", "PYWHEEL_REQUIRE_NATIVE"))
    if pure and native:
        raise ImportError("PYWHEEL_PURE and PYWHEEL_REQUIRE_NATIVE contradict each other: unset one of them")
    if pure:
        return "pure"
    try:
        import_module("._wheel", __name__)
    except ImportError as error:
        if native:
            raise ImportError(
                f"PYWHEEL_REQUIRE_NATIVE is set and there is no native wheel ({error}): {_MEND}"
            ) from error
        if sys.implementation.name == "cpython":
            import warnings

            warnings.warn(
                f"the native wheel is missing ({error}), the pure-Python one is many times slower: {_MEND}, "
                "or set PYWHEEL_PURE=1 to use the pure one without this warning",
                RuntimeWarning,
                stacklevel=2,
            )
        return "pure"
    return "native"


implementation: Final = _choose()

if TYPE_CHECKING or implementation == "native":
    from ._wheel import KeyWheel, TimingWheel
else:
    from ._pure import KeyWheel, TimingWheel
