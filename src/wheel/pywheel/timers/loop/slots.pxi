# asyncio's handles are Python classes with slots. Here they are made without running `__init__`: the slots are filled
# where their descriptors say they lie.

cdef extern from *:
    """
    #include "structmember.h"
    #define pywheel_offset(descriptor) (((PyMemberDescrObject *)(descriptor))->d_member->offset)
    """
    Py_ssize_t offset_of "pywheel_offset"(object descriptor)

ctypedef struct fields_t:               # of a TimerHandle, behind the slots
    uint64_t timer                      # the wheel's handle
    double due                          # when, as a float that is not less


cdef set KNOWN = {"_args", "_callback", "_cancelled", "_context", "_loop", "_repr", "_scheduled", "_source_traceback",
                  "_when", "__weakref__"}                   # of Python 3.11 to 3.14


cdef int check_slots() except -1:
    """ImportError if asyncio's handles have other slots than those known here: a new one would never be filled."""
    found = {*getattr(events.Handle, "__slots__", ()), *getattr(events.TimerHandle, "__slots__", ())}
    if found != KNOWN:
        raise ImportError(f"the handles of this Python's asyncio have other slots than pywheel knows: "
                          f"{', '.join(sorted(found ^ KNOWN))}")
    return 0


cdef Py_ssize_t slot(type owner, str name) except -1:
    """Where a slot lies in the instances of a class."""
    descriptor = vars(owner).get(name)
    if type(descriptor) is not MemberDescriptorType:
        raise ImportError(f"asyncio's {owner.__name__} has no slot {name} in this Python")
    return offset_of(descriptor)


check_slots()

cdef Py_ssize_t CALLBACK = slot(events.Handle, "_callback")
cdef Py_ssize_t ARGS = slot(events.Handle, "_args")
cdef Py_ssize_t CANCELLED = slot(events.Handle, "_cancelled")
cdef Py_ssize_t CONTEXT = slot(events.Handle, "_context")
cdef Py_ssize_t LOOP = slot(events.Handle, "_loop")
cdef Py_ssize_t REPR = slot(events.Handle, "_repr")
cdef Py_ssize_t TRACEBACK = slot(events.Handle, "_source_traceback")
cdef Py_ssize_t SCHEDULED = slot(events.TimerHandle, "_scheduled")
cdef Py_ssize_t WHEN = slot(events.TimerHandle, "_when")

cdef enum:
    HANDLE_SLOTS = 9
cdef Py_ssize_t[HANDLE_SLOTS] slots = [CALLBACK, ARGS, CANCELLED, CONTEXT, LOOP, REPR, TRACEBACK, SCHEDULED, WHEN]
cdef Py_ssize_t FIELDS = events.TimerHandle.__basicsize__


cdef inline PyObject **at(PyObject *handle, Py_ssize_t offset) noexcept:
    return <PyObject **>(<char *>handle + offset)


cdef inline fields_t *fields(PyObject *handle) noexcept:
    return <fields_t *>(<char *>handle + FIELDS)


cdef inline void fill(PyObject *handle, Py_ssize_t offset, PyObject *value) noexcept:
    """Put a value into a slot that is empty."""
    Py_INCREF(value)
    at(handle, offset)[0] = value


cdef inline PyObject *replace(PyObject *handle, Py_ssize_t offset, PyObject *value) noexcept:
    """Put a value into a slot; return what was there, which is the caller's now, or NULL."""
    cdef PyObject *old = at(handle, offset)[0]
    fill(handle, offset, value)
    return old


cdef inline PyObject *taken(PyObject *handle, Py_ssize_t offset) noexcept:
    """What a slot held, which is the caller's now, or NULL."""
    cdef PyObject *old = at(handle, offset)[0]
    at(handle, offset)[0] = NULL
    return old


cdef inline void restore(PyObject *handle, Py_ssize_t offset, PyObject *value) noexcept:
    if unlikely(at(handle, offset)[0] != value):
        Py_XDECREF(replace(handle, offset, value))
