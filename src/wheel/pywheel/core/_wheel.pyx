"""The native wheels: the C of the `.pxd` files behind Python methods, and nothing else."""

cimport cython

import itertools
import os
from types import GenericAlias

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from cpython.pythread cimport (WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock,
                               PyThread_release_lock)
from cython cimport critical_section
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t

from pywheel._errors import WheelFull
from pywheel.core import _arguments as arguments

from pywheel.core.arena cimport (arena_find, arena_handle, arena_touch, indices_are_out, live_nodes, next_live,
                                 walk_t)
from pywheel.core.bits cimport unlikely
from pywheel.core.check cimport wheel_check
from pywheel.core.advance cimport wheel_advance, wheel_next_deadline, wheel_peek, wheel_pop
from pywheel.core.levels cimport NEVER, wheel_bytes, wheel_detach, wheel_free, wheel_init, wheel_t
from pywheel.core.many cimport wheel_cancel_many, wheel_reschedule_many, wheel_schedule_many
from pywheel.core.schedule cimport wheel_move, wheel_remove, wheel_schedule

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass
    PyThreadState *PyEval_SaveThread()
    void PyEval_RestoreThread(PyThreadState *state)
    ctypedef int (*visitproc)(PyObject *, void *) noexcept
    ctypedef int (*traverseproc)(PyObject *, visitproc, void *) noexcept
    ctypedef int (*inquiry)(PyObject *) noexcept
    ctypedef struct PyTypeObject:
        traverseproc tp_traverse
        inquiry tp_clear
    PyObject *new_int "PyLong_FromUnsignedLongLong"(unsigned long long value) except NULL
    PyObject *new_bool "PyBool_FromLong"(long value)
    bytes PyBytes_FromStringAndSize(const char *value, Py_ssize_t size)
    char *PyBytes_AS_STRING(bytes value)
    PyObject *PyTuple_GET_ITEM(tuple items, Py_ssize_t i)
    void PyErr_Clear()
    bint PyObject_CheckBuffer(object value)
    void Py_INCREF(object value)
    void Py_DECREF(PyObject *value)
    list PyList_New(Py_ssize_t size)
    void PyList_SET_ITEM(object target, Py_ssize_t i, PyObject *value)
    void Py_SET_SIZE(PyObject *target, Py_ssize_t size)


# One module of several files, as the wheels and what they are made of refer to each other.

include "wheel/arguments.pxi"
include "wheel/lock.pxi"
include "wheel/items.pxi"
include "wheel/scheduling.pxi"
include "wheel/base.pxi"
include "wheel/timing_wheel.pxi"
include "wheel/key_wheel.pxi"
include "wheel/arrays.pxi"
