"""Timers with a callback, and what every driver of them shares: the wheel of `_wheel`, a clock, and calls."""

# A pending Timer is the item of its node: the wheel owns a reference to it, so it lives until it ends.
# Each change of a timer's state happens together with that of the wheel, in one critical section on the wheel, in which
# no Python code runs and nothing is made that the garbage collector tracks. Callbacks and arguments are dropped after
# it. A driver has one wheel for all its life, and a timer one driver until it has ended, so both can be read outside.
#
# What the garbage collector sees of a pending timer stands in timers/collector.pxi.
#
# `_wake_before` is read outside, too, as each new timer asks for it. A driver writes it before it looks for the next
# deadline, and a timer is in the wheel before it is read: so the one sees the timer, or the other what was written.

cimport cython

import random as _random
from types import CoroutineType

from cpython.object cimport PyObject, PyCallable_Check
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cython cimport critical_section
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t

from pywheel.core._wheel cimport TimingWheel
from pywheel.core.advance cimport (is_behind, wheel_advance, wheel_advance_some, wheel_collect_more,
                                   wheel_next_deadline, wheel_pop)
from pywheel.core.arena cimport GEN_BITS, arena_t, index_in, is_live, live_nodes, next_live, node_t, walk_t
from pywheel.core.bits cimport HAS_GIL, prefetch, read_shared, write_shared
from pywheel.core.levels cimport NEVER, wheel_t
from pywheel.core.schedule cimport wheel_move, wheel_remove, wheel_schedule
from pywheel.timers.clock cimport HAS_CLOCK, first_ns, monotonic_ns

from pywheel._errors import WheelFull
from pywheel.timers import _arguments as arguments
from pywheel.clock import MonotonicClock, monotonic_or
from pywheel._seconds import LONGEST as _LONGEST, tick_ns, unsigned_ns

cdef extern from "Python.h":
    PyObject **items_of "&PyTuple_GET_ITEM"(tuple value, int first)
    PyObject *PyObject_Vectorcall(object callable, PyObject **arguments, size_t flags, PyObject *keywords)
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET
    bint PyMethod_Check(object value)
    PyObject *PyMethod_GET_FUNCTION(object method)
    PyObject *PyMethod_GET_SELF(object method)
    object PyMethod_New(object function, object bound)
    PyObject *new_method "PyMethod_New"(object function, object bound)
    object PyContext_CopyCurrent()
    int PyContext_Enter(object context)
    int PyContext_Exit(object context)
    int64_t PyLong_AsLongLongAndOverflow(object value, int *overflow) noexcept
    void Py_INCREF(object value)
    void Py_DECREF(PyObject *value)
    Py_ssize_t Py_REFCNT(PyObject *value)
    ctypedef int (*visitproc)(PyObject *, void *) noexcept
    ctypedef int (*traverseproc)(PyObject *, visitproc, void *) noexcept
    ctypedef int (*inquiry)(PyObject *) noexcept
    ctypedef struct PyTypeObject:
        traverseproc tp_traverse
        inquiry tp_clear
    PyTypeObject *Py_TYPE(PyObject *value)
    bint PyType_IS_GC(PyTypeObject *kind)
    void PyObject_GC_Track(object value)
    void PyObject_GC_UnTrack(object value)
    bint PyObject_GC_IsTracked(PyObject *value)

# One module of several files, as the timers and their drivers refer to each other.

include "timers/ticks.pxi"
include "timers/timer.pxi"
include "timers/periodic.pxi"
include "timers/driver.pxi"
include "timers/scheduling.pxi"
include "timers/turn.pxi"
include "timers/calls.pxi"
include "timers/collector.pxi"
