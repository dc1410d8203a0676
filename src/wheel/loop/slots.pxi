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


cdef Py_ssize_t slot(type owner, str name) except -1:
    """Where a slot lies in the instances of a class."""
    descriptor = vars(owner).get(name)
    if type(descriptor) is not MemberDescriptorType:
        raise ImportError(f"asyncio's {owner.__name__} has no slot {name} in this Python: set PYWHEEL_PURE=1")
    return offset_of(descriptor)


if len(events.Handle.__slots__) + len(events.TimerHandle.__slots__) > 16:
    raise ImportError
cdef list _names = [name for name in (*events.Handle.__slots__, *events.TimerHandle.__slots__) if name != "__weakref__"]
cdef Py_ssize_t[16] slots
cdef int slot_count = len(_names), _i
for _i in range(slot_count):
    slots[_i] = slot(events.TimerHandle if _names[_i] in events.TimerHandle.__slots__ else events.Handle, _names[_i])

cdef Py_ssize_t CALLBACK = slot(events.Handle, "_callback")
cdef Py_ssize_t ARGS = slot(events.Handle, "_args")
cdef Py_ssize_t CANCELLED = slot(events.Handle, "_cancelled")
cdef Py_ssize_t CONTEXT = slot(events.Handle, "_context")
cdef Py_ssize_t LOOP = slot(events.Handle, "_loop")
cdef Py_ssize_t REPR = slot(events.Handle, "_repr")
cdef Py_ssize_t TRACEBACK = slot(events.Handle, "_source_traceback")
cdef Py_ssize_t SCHEDULED = slot(events.TimerHandle, "_scheduled")
cdef Py_ssize_t WHEN = slot(events.TimerHandle, "_when")
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
