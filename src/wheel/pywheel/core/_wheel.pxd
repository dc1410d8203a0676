from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport uint64_t

from pywheel.core.levels cimport wheel_t


cdef class _Wheel:
    cdef wheel_t wheel
    cdef uint64_t room                  # the most timers it may hold
    cdef readonly object max_pending
    cdef int busy                       # a bulk call works on the wheel without the GIL; see the lock
    cdef object __weakref__


# Each class has a field of its own: with one layout for both, Python would let a wheel of objects become one of keys.

cdef class TimingWheel(_Wheel):
    cdef bint distinct


cdef class KeyWheel(_Wheel):
    cdef PyThread_type_lock gate
    cdef int process                    # that made the gate, as `busy` says it
