# Timers come onto the wheel, and go from it.

cdef object add(WheelScheduling self, object when, double due, object callback, tuple args, PyObject *context):
    """Make the handle of a timer, and put it on the wheel. `when` is None if that is `due`.

    If `args` are not empty, nobody else has them.
    """
    cdef PyObject *handle = bare_timer()
    cdef object made = <object>handle
    cdef bint quiet = HAS_GIL and self.quiet
    Py_DECREF(handle)
    if context != NULL:
        fill(handle, CONTEXT, context)
    else:
        context = at(handle, CONTEXT)[0] = snapshot()
        if quiet and PyContext_CheckExact(context):
            PyObject_GC_UnTrack(context)
    fill(handle, LOOP, <PyObject *>self)
    fill(handle, CALLBACK, <PyObject *>callback)
    fill(handle, ARGS, <PyObject *>args)
    if when is not None:
        fill(handle, WHEN, <PyObject *>when)
    fields(handle).due = due
    if not quiet:
        PyObject_GC_Track(handle)
    elif len(args):
        PyObject_GC_UnTrack(<PyObject *>args)
    if unlikely(self._debug):
        made._source_traceback = format_helpers.extract_stack(sys._getframe())
    if place(self, handle):
        raise MemoryError
    return made


cdef int place(WheelScheduling self, PyObject *handle) noexcept:
    """Put a handle on the wheel; -1 if memory is out."""
    cdef wheel_t *w = &self.timers.wheel
    cdef uint64_t tick = tick_of(fields(handle).due)
    cdef bint failed = True
    with critical_section(self.timers):
        fields(handle).timer = wheel_schedule(w, tick, <uintptr_t>handle)
        if fields(handle).timer:
            Py_INCREF(handle)
            Py_XDECREF(replace(handle, SCHEDULED, Py_True))     # a bool: no code runs
            failed = False
            if tick <= w.now:
                self.early = min(self.early, fields(handle).due)
    return -failed


cdef void remove(WheelScheduling self, PyObject *handle) noexcept:
    """Take a handle out of the wheel, if it is there. The caller has a reference to it."""
    cdef uint32_t index
    cdef PyObject *scheduled = NULL
    with critical_section(self.timers):
        index = arena_find(&self.timers.wheel.arena, fields(handle).timer)
        if index:
            wheel_remove(&self.timers.wheel, index)
            scheduled = replace(handle, SCHEDULED, Py_False)
    if index:
        Py_XDECREF(scheduled)
        Py_DECREF(handle)
