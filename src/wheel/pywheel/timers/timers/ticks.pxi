# Seconds as nanoseconds on a driver's clock, and those as ticks of its wheel.


cdef inline int64_t as_ns(object value, str name) except -1:
    """Seconds as nanoseconds; a negative number becomes 0."""
    cdef double number
    cdef int64_t whole
    cdef int overflow
    if type(value) is float:
        number = <double>value
        if 0 <= number < 1e9:
            return first_ns(number)
    elif type(value) is int:
        whole = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and whole < 1_000_000_000:
            return whole * 1_000_000_000 if whole > 0 else 0
    return other_ns(value, name)


cdef int64_t other_ns(object value, str name) except -1:
    return unsigned_ns(value, name)


cdef int set_clock(Driver self, clock, int64_t length) except -1:
    self.read = clock.time_ns
    self.clock = clock
    self.system = HAS_CLOCK and type(clock) is MonotonicClock
    self._length = length
    self.per_nanosecond = 1.0 / length
    return 0


cdef inline int64_t now_ns(Driver self) except -1:
    return monotonic_ns() if self.system else other_clock(self)


cdef int64_t other_clock(Driver self) except -1:
    now = self.read()
    return now if type(now) is int and 0 <= now <= _LONGEST else arguments.clock_ns(now, self.clock)


cdef inline uint64_t ticks_by(Driver self, uint64_t ns) noexcept:
    """Whole ticks in `ns`: a division, which a multiplication does faster."""
    cdef uint64_t ticks = <uint64_t>(<double>ns * self.per_nanosecond)
    cdef int64_t rest = <int64_t>(ns - ticks * <uint64_t>self._length)
    while rest < 0:
        ticks -= 1
        rest += self._length
    while rest >= self._length:
        ticks += 1
        rest -= self._length
    return ticks


cdef inline uint64_t ticks_until(Driver self, uint64_t ns) noexcept:
    """The first tick at or after `ns`."""
    return ticks_by(self, ns + <uint64_t>self._length - 1)
