# Timers that are called again and again: when the next call is, and what happens to calls that were missed.

cdef enum:
    SKIP                                # as in _arguments
    BURST
    DELAY


@cython.internal
cdef class PeriodicTimer(ContextTimer):
    """A timer that goes on until it is cancelled."""
    cdef uint64_t planned               # nanoseconds on the clock: of the next call, jitter aside
    cdef int64_t jitter
    cdef int64_t lateness               # of the next call to be planned: drawn ahead, as Python code does it
    cdef uint8_t missed
    cdef bint behind                    # the next call makes up for a missed one


cdef inline int draw(PeriodicTimer timer) except -1:
    if timer.jitter:
        timer.lateness = <int64_t>(<double>_random.random() * timer.jitter)
    return 0


cdef bint again(Driver self, PeriodicTimer timer, uint64_t now, bint *late) except -1:
    """Plan the next call of a timer that makes up for a missed one; False if it was cancelled or reset meanwhile."""
    cdef uint32_t index = 0
    cdef bint failed = False
    with critical_section(self.wheel):
        if timer.behind:
            index = node_of(timer)
            if index:
                failed = plan(self, timer, index, now)
                late[0] = timer.behind
    if failed:
        raise MemoryError
    draw(timer)
    return index != 0


cdef bint plan(Driver self, PeriodicTimer timer, uint32_t index, uint64_t now) noexcept:
    """Move the timer to its next call, in a critical section. True, and nothing has changed, if memory is out."""
    cdef uint64_t planned = timer.planned + timer.delay, tick
    if timer.missed == DELAY:
        planned = now + timer.delay
    elif timer.missed == SKIP and now >= planned:
        planned += timer.delay * ((now - planned) // timer.delay + 1)
    tick = ticks_until(self, planned + timer.lateness)
    if wheel_move(&self.wheel.wheel, index, tick):
        return True
    timer.planned = planned
    timer.behind = tick <= self.wheel.wheel.now
    return False
