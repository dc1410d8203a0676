# asyncio's handles are Python classes with slots. Here they are made without running `__init__`: the code fills the
# slots at the offsets of their descriptors, which `_loop` finds when it is imported.

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from pywheel.core.bits cimport unlikely

cdef extern from *:
    """
    static Py_ssize_t pywheel_slots[9];             /* the offset of each in a handle */
    static Py_ssize_t pywheel_fields, pywheel_weakrefs;
    """
    Py_ssize_t *slots "pywheel_slots"
    Py_ssize_t CALLBACK "pywheel_slots[0]"
    Py_ssize_t ARGS "pywheel_slots[1]"
    Py_ssize_t CANCELLED "pywheel_slots[2]"
    Py_ssize_t CONTEXT "pywheel_slots[3]"
    Py_ssize_t LOOP "pywheel_slots[4]"
    Py_ssize_t REPR "pywheel_slots[5]"
    Py_ssize_t TRACEBACK "pywheel_slots[6]"
    Py_ssize_t SCHEDULED "pywheel_slots[7]"         # of a TimerHandle alone
    Py_ssize_t WHEN "pywheel_slots[8]"
    Py_ssize_t WEAKREFS "pywheel_weakrefs"
    Py_ssize_t FIELDS "pywheel_fields"              # behind the slots of a TimerHandle

cdef extern from "Python.h":
    void Py_INCREF(PyObject *value)
    void Py_XDECREF(PyObject *value)

cdef enum:
    HANDLE_SLOTS = 9

ctypedef struct fields_t:               # of a TimerHandle, behind the slots
    uint64_t timer                      # the wheel's handle
    double due                          # when, as a float that is not smaller


cdef inline PyObject **at(PyObject *handle, Py_ssize_t offset) noexcept:
    return <PyObject **>(<char *>handle + offset)


cdef inline fields_t *fields(PyObject *handle) noexcept:
    return <fields_t *>(<char *>handle + FIELDS)


cdef inline void fill(PyObject *handle, Py_ssize_t offset, PyObject *value) noexcept:
    """Put a value into an empty slot."""
    Py_INCREF(value)
    at(handle, offset)[0] = value


cdef inline PyObject *replace(PyObject *handle, Py_ssize_t offset, PyObject *value) noexcept:
    """Put a value into a slot; return the old one, a reference for the caller, or NULL."""
    cdef PyObject *old = at(handle, offset)[0]
    fill(handle, offset, value)
    return old


cdef inline PyObject *taken(PyObject *handle, Py_ssize_t offset) noexcept:
    """Empty a slot; return the old value, a reference for the caller, or NULL."""
    cdef PyObject *old = at(handle, offset)[0]
    at(handle, offset)[0] = NULL
    return old


cdef inline void restore(PyObject *handle, Py_ssize_t offset, PyObject *value) noexcept:
    if unlikely(at(handle, offset)[0] != value):
        Py_XDECREF(replace(handle, offset, value))
