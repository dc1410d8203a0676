# cython: language_level=3, binding=False, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Empty methods with the wheel's signatures, compiled as the wheel is: what a call costs before any work is done."""

from libc.stdint cimport uint64_t


cdef class _Empty:
    cdef uint64_t handle

    def __cinit__(self):
        self.handle = (<uint64_t>1 << 40) + 12345       # two digits of a Python int, like a handle

    def cancel(self, handle, /):
        return True

    def reschedule(self, handle, deadline, /):
        return True

    def next_deadline(self):
        return self.handle

    def advance(self, now, limit=None, /):
        return []


cdef class Floor(_Empty):
    def schedule(self, deadline, item=None, /):
        return self.handle


cdef class KeyFloor(_Empty):
    def schedule(self, deadline, key, /):
        return self.handle
