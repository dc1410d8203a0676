"""Every exception that pywheel raises by a name of its own."""

__all__ = ["PywheelError", "TimersStopped", "WheelFull"]


class PywheelError(Exception):
    """Base of every error that is pywheel's own."""


class WheelFull(PywheelError):
    """A timer was refused because the wheel already holds as many as it may."""


class TimersStopped(PywheelError):
    """A timer was refused because its driver has been stopped."""
