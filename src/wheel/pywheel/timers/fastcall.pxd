# Methods with `callback, *args, context=None`, called as fast as possible: usual calls read C's array of arguments, and
# all others go through a function with the full signature.

from cpython.object cimport PyObject

from pywheel.timers.contexts cimport Py_NewRef
from pywheel.timers.handles cimport PyTuple_GET_SIZE, Py_None

cdef extern from *:
    """
    /* A call of a Cython method with *args builds two tuples, a call of these builds one. */
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

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(PyObject *items, Py_ssize_t i)
    tuple PyTuple_New(Py_ssize_t size)
    void PyTuple_SET_ITEM(object items, Py_ssize_t i, PyObject *value)
    int PyUnicode_CompareWithASCIIString(PyObject *value, const char *word)


cdef inline bint is_usual(Py_ssize_t count, Py_ssize_t least, PyObject *names) noexcept:
    """Whether there are at least `least` positional arguments, and no named one except perhaps `context`."""
    return count >= least and (names == NULL or (
        PyTuple_GET_SIZE(names) == 1 and PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "context") == 0))


cdef inline PyObject *context_of(PyObject *const *args, Py_ssize_t count, PyObject *names) noexcept:
    return NULL if names == NULL or args[count] == Py_None else args[count]


cdef inline tuple as_tuple(PyObject *const *args, Py_ssize_t count):
    if count == 0:
        return ()
    cdef tuple items = PyTuple_New(count)
    cdef Py_ssize_t i
    for i in range(count):
        PyTuple_SET_ITEM(items, i, Py_NewRef(args[i]))
    return items


cdef inline object in_full(object function, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names):
    cdef dict keywords = {}
    cdef Py_ssize_t i
    if names != NULL:
        for i in range(PyTuple_GET_SIZE(names)):
            keywords[<object>PyTuple_GET_ITEM(names, i)] = <object>args[count + i]
    return function(<object>self, *as_tuple(args, count), **keywords)
