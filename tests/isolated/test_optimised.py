"""No check of ours is an `assert` that -O takes away."""

import pytest

from tests.implementations import CORES, MODULES
from tests.isolated.child import run_well

pytestmark = pytest.mark.stress

CODE = """
import {module} as core
import numpy as np
from pywheel import WheelFull
for cls in (core.TimingWheel, core.KeyWheel):
    wheel = cls(10, max_pending=2)
    handle = wheel.schedule(20, 1)
    wheel.schedule(30, 2)
    calls = [
        (WheelFull, lambda: wheel.schedule(20, 1)),
        (OverflowError, lambda: wheel.schedule(-1, 1)),
        (OverflowError, lambda: wheel.schedule(2**64 + 20, 1)),
        (TypeError, lambda: wheel.schedule(20.0, 1)),
        (OverflowError, lambda: wheel.reschedule(handle, 2**63)),
        (TypeError, lambda: wheel.cancel("x")),
        (ValueError, lambda: wheel.advance(9)),
        (ValueError, lambda: wheel.advance(11, -1)),
        (ValueError, lambda: cls(max_pending=0)),
        (OverflowError, lambda: cls(2**63)),
        (TypeError, lambda: wheel.__reduce__()),
    ]
    if cls is core.KeyWheel:
        calls += [
            (OverflowError, lambda: wheel.schedule(20, 2**64)),
            (ValueError, lambda: wheel.schedule_many([1, 2], [1])),
            (TypeError, lambda: wheel.schedule_many(np.ones(2), [1, 2])),
            (OverflowError, lambda: wheel.schedule_many([1, -2], [1, 2])),
            (WheelFull, lambda: wheel.schedule_many([1, 2], [1, 2])),
            (ValueError, lambda: wheel.cancel_many([[handle]])),
        ]
    for expected, call in calls:
        try:
            call()
        except expected:
            pass
        else:
            raise SystemExit(f"no {{expected.__name__}}")
        wheel._check()
    if (wheel.now, sorted(wheel.advance(40))) != (10, [1, 2]):
        raise SystemExit("something changed")
"""


@pytest.mark.parametrize("name", CORES)
def test_bad_input_is_refused_under_python_o(name):
    run_well("-OO", "-c", CODE.format(module=MODULES[name]))
