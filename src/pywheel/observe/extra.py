"""What the extra ``telemetry`` brings: imported when it is asked for, and not before."""

from __future__ import annotations

import importlib
from typing import Any

from .._errors import PywheelError

__all__ = ["TelemetryMissing", "needed"]


class TelemetryMissing(PywheelError, ImportError):
    """A package that telemetry needs is not installed."""


def needed(module: str) -> Any:
    """Return a module of the extra. TelemetryMissing if it is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        raise TelemetryMissing(f"{package} is not installed: pip install 'pywheel-timer[telemetry]'") from error
