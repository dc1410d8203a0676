# Calls of a function, or of a method by its parts, without an object for the method.

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

cdef extern from "Python.h":
    PyObject **items_of "&PyTuple_GET_ITEM"(tuple value, int first)
    Py_ssize_t PyTuple_GET_SIZE(tuple value)
    PyObject *PyTuple_GET_ITEM(tuple value, Py_ssize_t i)
    PyObject *PyObject_Vectorcall(object callable, PyObject **arguments, size_t flags, PyObject *keywords)
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET
    PyObject *new_method "PyMethod_New"(object function, object bound)
    void Py_DECREF(PyObject *value)

cdef enum:
    ON_THE_STACK = 6                    # this many arguments reach a method without an object for the method


cdef inline PyObject *call_one(function, bound, payload, uint8_t shape) noexcept:
    """Call a function, or a method by its parts, with `shape` arguments, 0 or 1; return its result, or NULL."""
    cdef PyObject *stack[3]
    cdef bint method = bound is not None
    stack[0] = NULL                 # room for the called function
    stack[1] = <PyObject *>bound
    stack[1 + method] = <PyObject *>payload
    return PyObject_Vectorcall(function, stack + 1, (method + shape) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL)


cdef inline PyObject *call_many(function, bound, tuple payload) noexcept:
    """Call one with a tuple of arguments. The tuple stays private: the collector may not know it."""
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
