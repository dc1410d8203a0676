"""Another project's module, which drives the wheel by cimport."""

from libc.stdint cimport int64_t, uint64_t

from pywheel.core._wheel cimport KeyWheel
from pywheel.core.advance cimport wheel_advance, wheel_next_deadline, wheel_pop
from pywheel.core.arena cimport arena_find
from pywheel.core.levels cimport NEVER, wheel_free, wheel_init, wheel_t
from pywheel.core.schedule cimport wheel_move, wheel_remove, wheel_schedule
from pywheel.timers.clock cimport first_ns


cdef uint64_t drive(uint64_t *expired, uint64_t room) noexcept nogil:
    """Schedule four timers, cancel one, reschedule one; write those that expired by tick 2**40, return how many."""
    cdef wheel_t wheel
    cdef uint64_t cancelled, moved, count
    wheel_init(&wheel, 5, 1)
    wheel_schedule(&wheel, 1000, 10)
    cancelled = wheel_schedule(&wheel, 1000, 20)
    moved = wheel_schedule(&wheel, 7, 30)
    wheel_schedule(&wheel, <uint64_t>1 << 62, 40)
    wheel_remove(&wheel, arena_find(&wheel.arena, cancelled))
    wheel_move(&wheel, arena_find(&wheel.arena, moved), <uint64_t>1 << 40)
    wheel_advance(&wheel, <uint64_t>1 << 40, NEVER)
    count = wheel_pop(&wheel, expired, room)
    if count < room:
        expired[count] = wheel_next_deadline(&wheel)
        count += 1
    wheel_free(&wheel)
    return count


def run():
    """Keys in the order in which they expired, and a tick no later than the last timer's deadline."""
    cdef uint64_t expired[8]
    cdef uint64_t count, i
    with nogil:
        count = drive(expired, 8)
    return [expired[i] for i in range(count)]


def due(double seconds):
    """The first nanosecond by which so many seconds have passed, as the timers count it: the core has no clock."""
    cdef int64_t ns
    with nogil:
        ns = first_ns(seconds)
    return ns


def pending(KeyWheel wheel):
    """How many timers a wheel made in Python has, read from its struct."""
    return wheel.wheel.live
