# How a callback is called, and what happens to what it returns or raises.

cdef enum:
    ON_THE_STACK = 6                    # so many are handed to a method without an object for the method


cdef bint call(Driver self, Timer timer) except -1:
    """Call the timer's callback, and release it unless the timer is to be called again. False: it was cancelled."""
    cdef object function, bound, payload, context = None
    cdef PyObject *result = NULL
    cdef uint8_t shape
    with critical_section(self.wheel):
        function, bound, payload, shape = timer.function, timer.bound, timer.payload, timer.shape
        if has_context(timer):
            context = (<ContextTimer>timer).context
    if function is None:                # in this very moment, by another thread
        return False
    if context is None or enter_context(context) == 0:
        if shape == MANY_ARGUMENTS:
            result = call_many(function, bound, payload)
        else:
            result = call_one(function, bound, payload, shape)
        if context is not None:
            leave_context(context)
    if result != <PyObject *>None:
        settle(self, timer, result, context)
    else:
        Py_DECREF(result)
    finish(self, timer)
    return True


cdef inline PyObject *call_one(function, bound, payload, uint8_t shape) noexcept:
    """Call a function, or a method by its parts, with an argument or none; return what it returns, or NULL."""
    cdef PyObject *stack[3]
    cdef bint method = bound is not None
    stack[0] = NULL                 # room for whoever is called
    stack[1] = <PyObject *>bound
    stack[1 + method] = <PyObject *>payload
    return PyObject_Vectorcall(function, stack + 1, (method + shape) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)


cdef PyObject *call_many(function, bound, tuple payload) noexcept:
    """The same with a tuple of arguments, which nobody gets to see: the collector may not know it."""
    cdef PyObject *stack[2 + ON_THE_STACK]
    cdef PyObject *method
    cdef PyObject *result
    cdef Py_ssize_t n = PyTuple_GET_SIZE(payload), i
    if bound is None:
        return PyObject_Vectorcall(function, items_of(payload, 0), n, NULL)
    if n > ON_THE_STACK:
        method = new_method(function, bound)
        if method == NULL:
            return NULL
        result = PyObject_Vectorcall(<object>method, items_of(payload, 0), n, NULL)
        Py_DECREF(method)
        return result
    stack[0] = NULL
    stack[1] = <PyObject *>bound
    for i in range(n):
        stack[2 + i] = PyTuple_GET_ITEM(payload, i)
    return PyObject_Vectorcall(function, stack + 1, (n + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)


cdef inline int enter_context(context) noexcept:
    """Enter a context, where it can be got hold of: from here on the collector has to know it. -1: an error is set."""
    track_object(context)
    return PyContext_Enter(context)


cdef int settle(Driver self, Timer timer, PyObject *result, context) except -1:
    """See to what a callback returned, or raised if that is NULL."""
    try:
        if result == NULL:
            throw()
        value = <object>result
        Py_DECREF(result)
        if isinstance(value, CoroutineType):
            self._spawn(timer, value, context)
    except (KeyboardInterrupt, SystemExit):
        finish(self, timer)
        raise
    except BaseException as error:
        try:
            self._report(timer, error)
        except BaseException:
            finish(self, timer)
            raise
    return 0


cdef int throw() except -1:
    """Raise the error that is set."""
    return -1


cdef int leave_context(context) except -1:
    """Leave a context, with or without an error set."""
    return PyContext_Exit(context)


cdef int finish(Driver self, Timer timer) except -1:
    """Release a timer that has run and is not to be called again."""
    cdef bint over
    with critical_section(self.wheel):
        over = timer.state == RUNNING
        if over:
            timer.state = FIRED
    return release_timer(timer) if over else 0
