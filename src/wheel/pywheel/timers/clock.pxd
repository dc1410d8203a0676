# The system's monotonic clock, and seconds as whole nanoseconds; in C the same as pywheel/_seconds.py. Only timers use
# it: the core has no clock.

from libc.math cimport ceil, floor
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #include <time.h>
    /* On Linux time.monotonic() reads CLOCK_MONOTONIC; elsewhere, before 3.13, Python has to be asked. */
    #if PY_VERSION_HEX >= 0x030D0000
    #define PYWHEEL_HAS_CLOCK 1
    static CYTHON_INLINE int64_t pywheel_monotonic_ns(void) {
        PyTime_t now;
        return PyTime_MonotonicRaw(&now) < 0 ? -1 : (int64_t)now;
    }
    #elif defined(__linux__)
    #define PYWHEEL_HAS_CLOCK 1
    static CYTHON_INLINE int64_t pywheel_monotonic_ns(void) {
        struct timespec now;
        return clock_gettime(CLOCK_MONOTONIC, &now) ? -1 : (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }
    #else
    #define PYWHEEL_HAS_CLOCK 0
    #define pywheel_monotonic_ns() ((int64_t)-1)
    #endif
    """
    const bint HAS_CLOCK "PYWHEEL_HAS_CLOCK"
    int64_t monotonic_ns "pywheel_monotonic_ns"() noexcept nogil    # -1: it cannot be read

cdef enum:
    NANO = 1_000_000_000


cdef inline int64_t first_ns(double value) noexcept nogil:
    """The first nanosecond `ns` for which ns / 1e9 >= value; 0 <= value < 2**32."""
    cdef double whole = floor(value)
    cdef int64_t ns = <int64_t>whole * NANO + <int64_t>ceil((value - whole) * 1e9)
    while ns / 1e9 < value:
        ns += 1
    while (ns - 1) / 1e9 >= value:
        ns -= 1
    return ns
