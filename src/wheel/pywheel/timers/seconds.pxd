# A tick is 2**-20 s: floats of seconds become ticks and back without rounding. But ticks only give a timer's place in
# the wheel. The condition for running is `when <= time()`, in the loop's own floats: a timer of the present tick whose
# time has not come goes back to the wheel, and `early` is the earliest of those. So nothing runs early, whatever the
# clock and its resolution, and nothing waits for the next tick on a clock that stands still, as those of tests do.

from cpython.time cimport monotonic as monotonic_of_python
from libc.math cimport INFINITY, isnan, nextafter
from libc.stdint cimport int64_t, uint64_t

from pywheel.core.bits cimport unlikely
from pywheel.timers.clock cimport HAS_CLOCK, NANO, monotonic_ns

cdef extern from *:
    """
    #define PYWHEEL_LAST_SECOND 4398046511104.0     /* 2 ** 42 */
    """
    const double LAST "PYWHEEL_LAST_SECOND"         # every later deadline, including infinity, is on this tick

cdef extern from "Python.h":
    bint PyFloat_CheckExact(object value)
    double PyFloat_AS_DOUBLE(object value)
    double PyFloat_AsDouble(object value) except? -1

cdef enum:
    TICKS_PER_SECOND = 1 << 20


cdef inline double monotonic() except? -1:
    """time.monotonic(), to the last bit."""
    cdef int64_t ns = monotonic_ns() if HAS_CLOCK else -1
    if unlikely(ns < 0):
        return monotonic_of_python()
    return <double>(ns // NANO) if unlikely(ns % NANO == 0) else <double>ns / 1e9


cdef inline uint64_t tick_of(double seconds) noexcept:
    if not seconds > 0:
        return 0
    return <uint64_t>((seconds if seconds < LAST else LAST) * TICKS_PER_SECOND)


cdef inline double as_due(object when) except? -1:
    """`when` as a float that is not smaller."""
    cdef double due = PyFloat_AS_DOUBLE(when) if PyFloat_CheckExact(when) else other_due(when)
    if unlikely(isnan(due)):
        raise not_a_number()
    return due


cdef inline double check(double due) except? -1:
    """Return a computed `when`; ValueError if it is NaN."""
    if unlikely(isnan(due)):
        raise not_a_number()
    return due


cdef inline object not_a_number():
    return ValueError("the time of a call must not be NaN")


cdef inline double other_due(object when) except? -1:
    if when is None:
        raise TypeError("when cannot be None")
    cdef double due = PyFloat_AsDouble(when)
    return nextafter(due, INFINITY) if not isnan(due) and due < when else due
