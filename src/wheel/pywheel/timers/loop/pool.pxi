# Handles that nobody has, to be made timers of again: False and None where a new handle has them, the rest is empty.

cdef extern from *:
    """
    static PyObject *pywheel_allocate(PyTypeObject *type) {
        PyObject *made = PyObject_GC_New(PyObject, type);
        if (made != NULL)
            memset((char *)made + sizeof(PyObject), 0, type->tp_basicsize - sizeof(PyObject));
        return made;
    }
    """
    PyObject *allocate "pywheel_allocate"(PyTypeObject *type) except NULL

cdef enum:
    POOL = 1024                         # handles kept for the next timers

cdef PyObject *pool[POOL]
cdef int pooled = 0


cdef inline PyObject *bare_timer() except NULL:
    """A TimerHandle that the collector does not know of, without callback, arguments, context, loop and time."""
    global pooled
    cdef PyObject *handle
    if HAS_GIL and pooled:
        pooled -= 1
        handle = pool[pooled]
        _Py_NewReference(handle)
        return handle
    handle = allocate(TIMER_HANDLE)
    fill_constants(handle)
    fill(handle, SCHEDULED, Py_False)
    return handle


cdef inline bint keep(PyObject *handle) noexcept:
    """Put a handle that is as `bare_timer` wants it into the pool; False if that is full."""
    global pooled
    if not HAS_GIL or pooled == POOL:
        return False
    pool[pooled] = handle
    pooled += 1
    return True


cdef inline void empty(PyObject *handle) noexcept:
    """Make a handle what `bare_timer` gives."""
    release_context(taken(handle, CONTEXT))
    Py_XDECREF(taken(handle, CALLBACK))
    release_args(taken(handle, ARGS))
    Py_XDECREF(taken(handle, LOOP))
    Py_XDECREF(taken(handle, WHEN))
    restore(handle, CANCELLED, Py_False)
    restore(handle, SCHEDULED, Py_False)
    restore(handle, REPR, Py_None)
    restore(handle, TRACEBACK, Py_None)


cdef void dealloc(PyObject *handle) noexcept:
    """Release a handle that is not tracked any more."""
    cdef PyObject *type
    if not HAS_GIL or at(handle, WEAKREFS)[0] != NULL:
        PyObject_ClearWeakRefs(handle)
    empty(handle)
    if keep(handle):
        return
    clear_slots(handle)
    type = <PyObject *>Py_TYPE(handle)
    PyObject_GC_Del(handle)
    Py_DECREF(type)
