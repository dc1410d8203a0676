# call_soon, call_later and call_at, each with `callback, *args, context=None`, called as fast as can be. What is usual
# is taken from C's array of arguments; the rest goes through a function with the signature in full.

cdef extern from *:
    """
    /* Calls of a Cython method with *args build two tuples, those of this one. */
    static PyMethodDef pywheel_methods[3];
    static int pywheel_add_method(PyObject *type, int i, const char *name, void *function, const char *doc) {
        PyMethodDef method = {name, (PyCFunction)function, METH_FASTCALL | METH_KEYWORDS, doc};
        PyObject *descriptor;
        pywheel_methods[i] = method;
        descriptor = PyDescr_NewMethod((PyTypeObject *)type, &pywheel_methods[i]);
        if (descriptor == NULL || PyDict_SetItemString(((PyTypeObject *)type)->tp_dict, name, descriptor) < 0)
            return -1;
        Py_DECREF(descriptor);
        PyType_Modified((PyTypeObject *)type);
        return 0;
    }
    """
    int add_method "pywheel_add_method"(object type, int i, const char *name, void *function, const char *doc) except -1


cdef inline bint is_usual(Py_ssize_t count, Py_ssize_t least, PyObject *names) noexcept:
    """Whether there are at least so many positional arguments, and of the others at most `context`."""
    return count >= least and (names == NULL or (
        PyTuple_GET_SIZE(names) == 1 and PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "context") == 0))


cdef inline PyObject *context_of(PyObject *const *args, Py_ssize_t count, PyObject *names) noexcept:
    return NULL if names == NULL or args[count] == Py_None else args[count]


cdef tuple NOTHING = ()


cdef inline tuple as_tuple(PyObject *const *args, Py_ssize_t count):
    if count == 0:
        return NOTHING
    cdef tuple items = PyTuple_New(count)
    cdef Py_ssize_t i
    for i in range(count):
        PyTuple_SET_ITEM(items, i, Py_NewRef(args[i]))
    return items


cdef object in_full(object function, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names):
    cdef dict keywords = {}
    cdef Py_ssize_t i
    if names != NULL:
        for i in range(PyTuple_GET_SIZE(names)):
            keywords[<object>PyTuple_GET_ITEM(names, i)] = <object>args[count + i]
    return function(<object>self, *as_tuple(args, count), **keywords)


cdef object call_soon(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names):
    cdef WheelScheduling loop = <WheelScheduling>self
    loop.look_again()
    if not is_usual(count, 1, names) or loop._closed or loop._debug or not loop.own_call_soon:
        return in_full(_call_soon, self, args, count, names)
    handle = new_handle(loop, <object>args[0], as_tuple(args + 1, count - 1), context_of(args, count, names))
    loop._ready.append(handle)
    return handle


def _call_soon(self, *args, **keywords):
    return super(WheelScheduling, self).call_soon(*args, **keywords)


cdef object call_later(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names):
    cdef WheelScheduling loop = <WheelScheduling>self
    cdef double due
    loop.look_again()
    if (not is_usual(count, 2, names) or not (PyFloat_CheckExact(<object>args[0]) or PyLong_CheckExact(<object>args[0]))
            or loop._closed or loop._debug or not (loop.own_call_at and loop.own_time)):
        return in_full(_call_later, self, args, count, names)
    due = loop.present()
    if PyLong_CheckExact(<object>args[0]):
        due += PyLong_AsDouble(<object>args[0])
    else:
        due += PyFloat_AS_DOUBLE(<object>args[0])
    return add(loop, None, check(due), <object>args[1], as_tuple(args + 2, count - 2), context_of(args, count, names))


def _call_later(self, delay, callback, *args, context=None):
    if delay is None:
        raise TypeError("delay must not be None")
    return self.call_at(self.time() + delay, callback, *args, context=context)


cdef object call_at(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names):
    cdef WheelScheduling loop = <WheelScheduling>self
    if not is_usual(count, 2, names) or loop._closed or loop._debug:
        return in_full(_call_at, self, args, count, names)
    return add(loop, <object>args[0], as_due(<object>args[0]), <object>args[1], as_tuple(args + 2, count - 2),
               context_of(args, count, names))


def _call_at(self, when, callback, *args, context=None):
    cdef WheelScheduling loop = self
    cdef double due = as_due(when)
    loop._check_closed()
    if loop._debug:
        loop._check_thread()
        loop._check_callback(callback, "call_at")
    return add(loop, when, due, callback, args, NULL if context is None else <PyObject *>context)


add_method(WheelScheduling, 0, "call_soon", <void *>call_soon, (
    b"call_soon($self, callback, *args, context=None)\n--\n\n"
    b"Have a callback called in the next turn of the loop. As in asyncio. O(1)."))
add_method(WheelScheduling, 1, "call_later", <void *>call_later, (
    b"call_later($self, delay, callback, *args, context=None)\n--\n\n"
    b"Have a callback called `delay` seconds from now, no earlier. As `call_at`."))
add_method(WheelScheduling, 2, "call_at", <void *>call_at, (
    b"call_at($self, when, callback, *args, context=None)\n--\n\n"
    b"Have a callback called when `time` has reached `when`, in seconds; at the next turn if it has.\n\n"
    b"It runs in `context`, or in a copy of the present one. An infinite `when` is never reached.\n\n"
    b"Returns:\n    A TimerHandle.\n\n"
    b"Raises:\n    TypeError: when is no number.\n    ValueError: it is NaN.\n"
    b"    OverflowError: it is too large for a float.\n    RuntimeError: the loop is closed.\n\n"
    b"O(1)."))
