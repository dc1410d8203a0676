# What hides timers from the garbage collector.
#
# While a loop runs, its wheel, the timers on it, and the contexts and arguments that were made for them cannot be
# garbage: so the collector does not track them, and a million of them cost a collection nothing. Not to be tracked is
# to be taken for reachable from elsewhere, so every way out gives a handle back to it: that it was cancelled, or was
# run and somebody still holds it, that the loop stops, that other code runs its turns. Without a GIL all are tracked.

cdef inline void watch_again(PyObject *value) noexcept:
    if HAS_GIL and not PyObject_GC_IsTracked(value):
        PyObject_GC_Track(value)


cdef inline void watch_args(PyObject *args) noexcept:
    if PyTuple_CheckExact(args) and PyTuple_GET_SIZE(args):
        watch_again(args)


cdef inline void watch_context(PyObject *context) noexcept:
    if PyContext_CheckExact(context):
        watch_again(context)


cdef void watch(PyObject *handle) noexcept:
    """Give a timer back to the garbage collector, with what was made for it."""
    if not HAS_GIL or PyObject_GC_IsTracked(handle):
        return
    if at(handle, ARGS)[0] != NULL:
        watch_args(at(handle, ARGS)[0])
    if at(handle, CONTEXT)[0] != NULL:
        watch_context(at(handle, CONTEXT)[0])
    PyObject_GC_Track(handle)


cdef inline void release_args(PyObject *args) noexcept:
    """Drop the arguments of a timer, or NULL."""
    if args != NULL:
        if Py_REFCNT(args) > 1:         # somebody has taken them
            watch_args(args)
        Py_DECREF(args)


cdef inline void release_context(PyObject *context) noexcept:
    """Drop the context of a timer, or NULL; contexts expect to be known to the collector in the end."""
    if context != NULL:
        watch_context(context)
        Py_DECREF(context)


cdef int traverse_slots(PyObject *handle, visitproc visit, void *arg) noexcept:
    cdef int i, stop = visit(<PyObject *>Py_TYPE(handle), arg)
    for i in range(HANDLE_SLOTS):
        if stop:
            break
        if at(handle, slots[i])[0] != NULL:
            stop = visit(at(handle, slots[i])[0], arg)
    return stop


cdef int clear_slots(PyObject *handle) noexcept:
    cdef int i
    cdef PyObject *old
    for i in range(HANDLE_SLOTS):
        old = at(handle, slots[i])[0]
        at(handle, slots[i])[0] = NULL
        Py_XDECREF(old)
    return 0
