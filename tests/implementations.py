"""Which wheels the tests run on: the extension, its pure twin, and the extension built with tiny limits."""

import importlib
import os
from types import ModuleType

from tests.core.variants import build_variant


def _switched_on(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


PURE_ONLY = _switched_on("PYWHEEL_PURE")
CORES = ["pure"] if PURE_ONLY else ["native", "pure"]

# The limits which an ordinary run never reaches: the generations of a node, the sequence numbers, and the count of
# live timers from which a slot has eight lists (never or at once).
_SMALL = {"PYWHEEL_GEN_BITS": 3, "PYWHEEL_SEQ_LIMIT": 100}
VARIANTS = {
    "small-0": {**_SMALL, "PYWHEEL_FAN_OUT_AT": 0},
    "small-100": {**_SMALL, "PYWHEEL_FAN_OUT_AT": 100},
    "tiny-pool": {"PYWHEEL_INDEX_LIMIT": 50},
}
# A run without a compiler at hand, such as the test of a finished wheel, says so.
SMALL = [] if PURE_ONLY or _switched_on("PYWHEEL_SKIP_VARIANTS") else ["small-0", "small-100"]
TINY_POOL = ["tiny-pool"] if SMALL else []

MODULES = {"native": "pywheel.core._wheel", "pure": "pywheel.core._pure"}


def load(name: str) -> ModuleType:
    """Return the module of that implementation. ImportError if it is not there: no test is skipped for that."""
    if name in VARIANTS:
        return build_variant(name, VARIANTS[name])
    return importlib.import_module(MODULES[name])
