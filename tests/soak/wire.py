"""The handlers' reports to the conductor, in one datagram each."""

import struct

__all__ = ["LINE", "TICK"]

LINE = struct.Struct("qd")
"""What a handler tells: the number of the job, and how late it began, in ms; -1 after a failed attempt."""
TICK = -1
"""The number that a schedule's handler tells; that of jobs that may be replaced is 0."""
