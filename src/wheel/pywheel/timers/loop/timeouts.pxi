# What `_timeout` asks of a loop, without the layers in between; see _loop.pxd.

cdef bint is_plain_wheel(object loop) except -1:
    """Whether a timer may be put on its wheel as `call_at` does: it is open, nothing is overridden or debugged."""
    cdef WheelScheduling ours
    if not isinstance(loop, WheelScheduling):
        return False
    ours = <WheelScheduling>loop
    ours.look_again()
    return ours.own_call_at and not (ours._closed or ours._debug)


cdef double wheel_time(object loop) except? -1:
    return (<WheelScheduling>loop).present()


cdef object wheel_timer(object loop, object when, double due, object callback, tuple args):
    """What `call_at` does, on a plain wheel."""
    return add(<WheelScheduling>loop, when, due, callback, args, NULL)


cdef int cancel_timer(object handle) except -1:
    """Cancel the handle of any loop."""
    if Py_TYPE(<PyObject *>handle) == TIMER_HANDLE:
        cancel(<PyObject *>handle, NULL)
    else:
        handle.cancel()
    return 0
