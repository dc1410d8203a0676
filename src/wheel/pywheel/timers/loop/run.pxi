# How a handle is run, and what happens to what its callback raises.

cdef extern from *:
    """
    #define pywheel_items(tuple) (((PyTupleObject *)(tuple))->ob_item)
    """
    PyObject **items_of "pywheel_items"(PyObject *tuple)


cdef inline bint is_plain(PyObject *handle) noexcept:
    """Whether it is to be run, and all is in its slots that Handle._run expects."""
    cdef PyObject *context = at(handle, CONTEXT)[0]
    cdef PyObject *args = at(handle, ARGS)[0]
    return (at(handle, CANCELLED)[0] == Py_False and at(handle, CALLBACK)[0] != NULL
            and args != NULL and PyTuple_CheckExact(args) and context != NULL and PyContext_CheckExact(context))


cdef int run(PyObject *handle) except -1:
    """What Handle._run does, unless the handle is cancelled."""
    cdef object context, callback, args
    cdef PyObject *result = NULL
    cdef bint made, plain
    with critical_section(<object>handle):
        made = make_context(handle)
        plain = made and is_plain(handle)
        if plain:
            context = <object>at(handle, CONTEXT)[0]
            callback = <object>at(handle, CALLBACK)[0]
            args = <object>at(handle, ARGS)[0]
    if not plain:
        if Py_TYPE(handle) == TIMER_HANDLE:
            watch(handle)
        if unlikely(not made):
            return failed(<object>handle)
        if not (<object>handle)._cancelled:
            (<object>handle)._run()
        return 0
    if PyContext_Enter(context) == 0:
        result = PyObject_Vectorcall(callback, items_of(<PyObject *>args), PyTuple_GET_SIZE(<PyObject *>args), NULL)
        if PyContext_Exit(context) < 0:
            Py_CLEAR(result)
    if Py_TYPE(handle) == TIMER_HANDLE and (Py_REFCNT(handle) > 1 or result == NULL):
        watch(handle)                   # somebody has it, or may keep it when told of the exception
    if unlikely(result == NULL):
        return failed(<object>handle)
    Py_DECREF(result)
    return 0


cdef int failed(object handle) except -1:
    """Do with the exception of a callback what Handle._run does."""
    try:
        raise_again()
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        report(handle, error)
    return 0


cdef int raise_again() except -1:
    return -1                           # the exception is set


cdef bint tells_debug = "debug" in signature(format_helpers._format_callback_source).parameters


cdef int report(object handle, object error) except -1:
    loop = handle._loop
    options = {"debug": loop.get_debug()} if tells_debug else {}
    source = format_helpers._format_callback_source(handle._callback, handle._args, **options)
    context = {"message": f"Exception in callback {source}", "exception": error, "handle": handle}
    if handle._source_traceback:
        context["source_traceback"] = handle._source_traceback
    loop.call_exception_handler(context)
    return 0
