"""Which wheels the tests run on: the extension, its pure twin, and the extension built with tiny limits."""

import importlib
import os
import sys
from types import ModuleType

from tests.core.variants import build_variant


def _switched_on(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


PURE_ONLY = _switched_on("PYWHEEL_PURE")
CORES = ["pure"] if PURE_ONLY else ["native", "pure"]

# The limits which an ordinary run never reaches: the generations of a node, the sequence numbers, the timers that one
# step of an advance moves down, and the count of live timers from which a slot has eight lists (never or at once).
_SMALL = {"PYWHEEL_GEN_BITS": 3, "PYWHEEL_SEQ_LIMIT": 100, "PYWHEEL_QUOTA": 3}
VARIANTS = {
    "small-0": {**_SMALL, "PYWHEEL_FAN_OUT_AT": 0},
    "small-100": {**_SMALL, "PYWHEEL_FAN_OUT_AT": 100},
    "tiny-pool": {"PYWHEEL_INDEX_LIMIT": 50, "PYWHEEL_GEN_BITS": 3},
}
# A run without a compiler at hand, such as the test of a finished wheel, says so.
SMALL = [] if PURE_ONLY or _switched_on("PYWHEEL_SKIP_VARIANTS") else ["small-0", "small-100"]
TINY_POOL = ["tiny-pool"] if SMALL else []

_packages: dict[str, ModuleType] = {}

MODULES = {"native": "pywheel.core._wheel", "pure": "pywheel.core._pure"}


def load(name: str) -> ModuleType:
    """Return the module of that implementation. ImportError if it is not there: no test is skipped for that."""
    if name in VARIANTS:
        return build_variant(name, VARIANTS[name])
    return importlib.import_module(MODULES[name])


def load_package(name: str) -> ModuleType:
    """Return all of pywheel on that implementation, beside the other one: each is imported once."""
    present = sys.modules.get("pywheel")
    if present is not None and present.implementation == name:
        _packages.setdefault(name, present)  # extension modules stay with the package that imported them first
    if name not in _packages:
        others = _take_out()
        before = {switch: os.environ.get(switch, "") for switch in ("PYWHEEL_PURE", "PYWHEEL_REQUIRE_NATIVE")}
        os.environ.update(PYWHEEL_PURE="1" if name == "pure" else "", PYWHEEL_REQUIRE_NATIVE="")
        try:
            package = _packages[name] = importlib.import_module("pywheel")
            importlib.import_module("pywheel.testing")
            for public in package.__all__:  # some are imported when they are asked for
                getattr(package, public)
        finally:
            os.environ.update(before)
            if others:
                _take_out()
                sys.modules.update(others)
        assert package.implementation == name
    return _packages[name]


def _take_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "pywheel"]
    return {name: sys.modules.pop(name) for name in names}
