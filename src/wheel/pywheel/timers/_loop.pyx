"""The native half of `EventLoop`: the handles, the scheduling and the turns of an asyncio loop, on a TimingWheel."""

# A loop belongs to one thread, here as in asyncio. Handles are changed under their lock, and the wheel under its own,
# so that a misuse from other threads does to a free-threaded Python what it does under the GIL: no harm to memory.

cimport cython

import selectors
import sys
from asyncio import base_events, events, format_helpers
from contextvars import Context, ContextVar
from inspect import signature
from operator import attrgetter
from types import MemberDescriptorType

from cpython.object cimport PyObject
from cpython.time cimport monotonic as monotonic_of_python
from cython cimport critical_section
from libc.math cimport INFINITY, isnan, nextafter
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t

from pywheel.core._wheel cimport TimingWheel
from pywheel.core.advance cimport is_behind, must_wait, next_occupied, wheel_advance_some, wheel_pop
from pywheel.core.arena cimport GEN_BITS, arena_find, live_nodes, next_live, walk_t
from pywheel.core.bits cimport DIGIT_BITS, HAS_GIL, SLOT_MASK, unlikely
from pywheel.core.levels cimport wheel_t
from pywheel.core.schedule cimport wheel_remove, wheel_schedule
from pywheel.timers.clock cimport HAS_CLOCK, NANO, monotonic_ns

cdef extern from "Python.h":
    ctypedef int (*visitproc)(PyObject *, void *) noexcept
    ctypedef struct PyTypeObject:
        PyTypeObject *tp_base
        Py_ssize_t tp_weaklistoffset
    PyObject *Py_False
    PyObject *Py_None
    PyObject *Py_True
    PyObject *PyContext_CopyCurrent() except NULL
    PyObject *PyContext_New()
    bint PyContext_CheckExact(PyObject *value)
    int PyContext_Enter(object context)
    int PyContext_Exit(object context)
    bint PyFloat_CheckExact(object value)
    double PyFloat_AS_DOUBLE(object value)
    double PyFloat_AsDouble(object value) except? -1
    double PyLong_AsDouble(object value) except? -1
    bint PyLong_CheckExact(object value)
    int PyObject_GenericSetAttr(object owner, object name, PyObject *value) except -1
    void PyObject_ClearWeakRefs(PyObject *value)
    void PyObject_GC_Del(PyObject *value)
    bint PyObject_GC_IsTracked(PyObject *value)
    void PyObject_GC_Track(PyObject *value)
    void PyObject_GC_UnTrack(PyObject *value)
    PyObject *PyObject_Vectorcall(object callback, PyObject *const *args, size_t count, PyObject *names)
    void Py_CLEAR(PyObject *value)
    Py_ssize_t Py_REFCNT(PyObject *value)
    bint PyTuple_CheckExact(PyObject *value)
    int PyUnicode_CompareWithASCIIString(PyObject *value, const char *word)
    list PyList_New(Py_ssize_t size)
    void PyList_SET_ITEM(object items, Py_ssize_t i, PyObject *value)
    tuple PyTuple_New(Py_ssize_t size)
    PyObject *PyTuple_GET_ITEM(PyObject *items, Py_ssize_t i)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *items)
    void PyTuple_SET_ITEM(object items, Py_ssize_t i, PyObject *value)
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t items)
    void Py_DECREF(PyObject *value)
    void Py_INCREF(PyObject *value)
    void Py_SET_SIZE(object value, Py_ssize_t size)
    PyObject *Py_NewRef(PyObject *value)
    PyTypeObject *Py_TYPE(PyObject *value)
    void Py_XDECREF(PyObject *value)
    void _Py_NewReference(PyObject *value)


# One module of several files, as the handles and the loop refer to each other.

include "loop/slots.pxi"
include "loop/pool.pxi"
include "loop/context.pxi"
include "loop/collector.pxi"
include "loop/handle.pxi"
include "loop/time.pxi"
include "loop/scheduling.pxi"
include "loop/loop.pxi"
include "loop/turn.pxi"
include "loop/run.pxi"
include "loop/fastcall.pxi"
include "loop/timeouts.pxi"
