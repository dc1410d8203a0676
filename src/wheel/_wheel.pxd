from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport uint64_t

from pywheel.core.levels cimport wheel_t


cdef class _Wheel:
    cdef wheel_t wheel
    cdef uint64_t room                  # the most timers it may hold
    cdef readonly object max_pending
    cdef int busy                       # a bulk call works on the wheel without the GIL; see the lock
    cdef PyThread_type_lock gate
    cdef object __weakref__


cdef class TimingWheel(_Wheel):
    pass


cdef class KeyWheel(_Wheel):
    pass
