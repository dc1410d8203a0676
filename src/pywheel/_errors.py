"""Every exception that pywheel raises by a name of its own."""

__all__ = ["PywheelError", "WheelFull"]


class PywheelError(Exception):
    """Base of every error that is pywheel's own."""


class WheelFull(PywheelError):
    """A timer was refused because the wheel already holds as many as it may."""
