"""`timeout` and `timeout_at` as asyncio has them, native: on the wheel of an EventLoop, or on any loop's timers."""

# What is done when, and what is raised, is asyncio's. That takes a coroutine for entering and one for leaving; here the
# one is an object that enters when it is awaited, and the other is done with before it is awaited.
#
# A Timeout and the timer that it waits for refer to each other. The timer lets go when it is cancelled or has run.
# After the block a Timeout knows neither its timer nor its task.
#
# A Timeout belongs to one task. The critical sections let a misuse from other threads do to a free-threaded Python
# what it does under the GIL: no harm to memory.

cimport cython

from asyncio import events, exceptions, tasks, timeouts
from contextvars import Context
from os import register_at_fork
from types import FunctionType
from weakref import WeakValueDictionary

from cpython.object cimport PyObject
from cython cimport critical_section
from libc.math cimport INFINITY, ceil, nextafter
from libc.stdint cimport uint32_t, uint64_t, uintptr_t

from pywheel.core._wheel cimport TimingWheel
from pywheel.core.advance cimport has_overdue, is_behind, next_occupied, wheel_advance_some, wheel_pop
from pywheel.core.arena cimport arena_find
from pywheel.core.bits cimport DIGIT_BITS, HAS_GIL, SLOT_MASK, unlikely
from pywheel.core.levels cimport NEVER, wheel_t
from pywheel.core.schedule cimport wheel_remove, wheel_schedule
from pywheel.timers._event_loop import StockLoop

from pywheel.timers._loop cimport cancel_timer, is_plain_wheel, wheel_time, wheel_timer
from pywheel.timers.clock cimport first_ns

cdef extern from *:
    """
    /* Cython's own `raise` makes an instance and a traceback, for nobody. */
    typedef PyObject *(*pywheel_next)(PyObject *);
    #define pywheel_set_next(type, function) (((PyTypeObject *)(type))->tp_iternext = (pywheel_next)(function))

    /* Where an awaitable has this slot, CPython 3.11 takes the result from it, without an exception. */
    #define pywheel_set_send(type, function) \
        (((PyTypeObject *)(type))->tp_as_async->am_send = (sendfunc)(function))
    """
    void set_next "pywheel_set_next"(object type, void *function)
    void set_send "pywheel_set_send"(object type, void *function)

cdef extern from "Python.h":
    ctypedef int (*inquiry)(PyObject *) noexcept
    ctypedef struct PyTypeObject:
        inquiry tp_clear
    PyObject *Py_None
    PyTypeObject *Py_TYPE(PyObject *value)
    void Py_DECREF(PyObject *value)
    void Py_INCREF(PyObject *value)
    object PyContext_CopyCurrent()
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1
    PyObject *PyThreadState_GetDict() except? NULL
    object PyWeakref_NewRef(object value, PyObject *callback)
    PyObject *PyExc_StopIteration
    PyObject *PyDict_GetItemWithError(object items, object key) except? NULL
    bint PyFloat_CheckExact(object value)
    double PyFloat_AS_DOUBLE(object value)
    double PyFloat_AsDouble(object value) except? -1
    bint PyLong_CheckExact(object value)
    void PyErr_SetObject(PyObject *type, object value)
    PyObject *Py_NewRef(object value)
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR

cdef enum:
    CREATED
    ENTERED
    EXPIRING                            # the task has been cancelled, and is still in the block
    EXPIRED
    EXITED

cdef tuple NAMES = ("created", "active", "expiring", "expired", "finished")

cdef object CancelledError = exceptions.CancelledError
# From Python 3.13 on, whatever else leaves the block tells in its context that time was up.
cdef object insert_timeout_error = getattr(timeouts.Timeout, "_insert_timeout_error", None)

cdef class Timeout

include "timeout/running.pxi"
include "timeout/loops.pxi"
include "timeout/wheel.pxi"


@cython.final
@cython.freelist(16)
@cython.trashcan(True)                  # a deadline may be any object: a chain of them is released in a bounded depth
cdef class Timeout:
    """A timeout for what is awaited in an ``async with`` block. `timeout` and `timeout_at` make them.

    Args:
        when: the time of the loop at which the task is cancelled, None for never.
    """
    cdef object deadline
    cdef object handle                  # of the loop's timer; None without one
    cdef TimeoutWheel wheel             # on which it stands instead, or None,
    cdef uint64_t timer                 # the wheel's handle,
    cdef object context                 # and where it is to run
    cdef object task
    cdef object cancelling              # how many requests to cancel the task had before
    cdef int state
    cdef object __weakref__

    def __init__(self, when):
        self.deadline = when
        self.state = CREATED

    @cython.critical_section
    def when(self):
        """Return the time at which the task is cancelled, None for never."""
        return self.deadline

    @cython.critical_section
    def reschedule(self, when):
        """Have another time, None for never; one that has passed counts at the next turn of the loop.

        Raises:
            RuntimeError: the block has not been entered, time was up, or the block is over.
        """
        if self.state == CREATED:
            raise RuntimeError("Timeout has not been entered")
        if self.state != ENTERED:
            raise RuntimeError(f"Cannot change state of {NAMES[self.state]} Timeout")
        self.deadline = when
        self.disarm()
        if when is not None:
            self.arm(running_loop())

    def expired(self):
        """Return whether time was up."""
        return self.state == EXPIRING or self.state == EXPIRED

    @cython.critical_section
    def __repr__(self):
        when = ""
        if self.state == ENTERED:
            when = f" when={None if self.deadline is None else round(self.deadline, 3)}"
        return f"<Timeout [{NAMES[self.state]}]{when}>"

    def __aenter__(self):
        cdef Entering entering = Entering.__new__(Entering)
        entering.timeout = self
        return entering

    @cython.critical_section
    def __aexit__(self, exc_type, exc_val, exc_tb):
        assert self.state == ENTERED or self.state == EXPIRING
        self.disarm()
        task, self.task = self.task, None
        if self.state == ENTERED:
            self.state = EXITED
            return OVER
        self.state = EXPIRED
        if task.uncancel() <= self.cancelling and exc_type is not None:
            # Nobody else asks for the cancellation, so it ends here.
            convert(exc_type, exc_val)
        return OVER

    @cython.critical_section
    cdef int enter(self) except -1:
        if self.state != CREATED:
            raise RuntimeError("Timeout has already been entered")
        loop = running_loop()
        task = current_task(loop)
        if task is None:
            raise RuntimeError("Timeout should be used inside a task")
        self.state = ENTERED
        self.task = task
        self.cancelling = task.cancelling()
        if self.deadline is not None:
            self.arm(loop)
        return 0

    cdef int arm(self, object loop) except -1:
        """Start the timer."""
        cdef double due
        if PyFloat_CheckExact(self.deadline):
            due = PyFloat_AS_DOUBLE(self.deadline)
            if not is_plain_wheel(loop):
                if start(self, loop, due):
                    return 0
            elif due > wheel_time(loop):
                self.handle = wheel_timer(loop, self.deadline, due, expire, (self,))
                return 0
        if self.deadline <= loop.time():
            self.handle = loop.call_soon(expire, self)
        else:
            self.handle = loop.call_at(self.deadline, expire, self)
        return 0

    cdef int disarm(self) except -1:
        handle, self.handle = self.handle, None
        if self.wheel is not None:
            stop(self)
        elif handle is not None:
            cancel_timer(handle)
        return 0

    @cython.critical_section
    cdef int expire(self) except -1:
        """Cancel the task, as time is up."""
        assert self.state == ENTERED
        self.task.cancel()
        self.state = EXPIRING
        self.handle = self.wheel = self.context = None
        return 0


def _expire(Timeout timeout not None):
    timeout.expire()


cdef object expire = _expire


cdef int convert(exc_type, exc_val) except -1:
    """Make a TimeoutError of the cancellation, which is our own."""
    if insert_timeout_error is None:
        if exc_type is CancelledError:
            raise TimeoutError from exc_val
    elif issubclass(exc_type, CancelledError):
        raise TimeoutError from exc_val
    elif exc_val is not None:
        insert_timeout_error(exc_val)
        if isinstance(exc_val, ExceptionGroup):
            for error in exc_val.exceptions:
                insert_timeout_error(error)
    return 0


# ---- what is awaited ------------------------------------------------------------------------------------------------

@cython.final
@cython.internal
@cython.freelist(16)
cdef class Entering:
    """Enters the block when it is awaited; the result is the Timeout."""
    cdef Timeout timeout

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        """Replaced below."""


@cython.final
@cython.internal
cdef class Over:
    """Has nothing left to do when it is awaited."""

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration


cdef Over OVER = Over()

ctypedef int (*enter_t)(Timeout timeout) noexcept     # the caller looks at the result itself


cdef int enter(Timeout timeout) except -1:
    if timeout is None:                 # its type was called: `__aenter__` alone fills it in
        raise TypeError("cannot create 'Entering' instances")
    return timeout.enter()


cdef PyObject *enter_next(Entering self) noexcept:
    cdef Timeout timeout = self.timeout
    if (<enter_t>enter)(timeout) == 0:
        PyErr_SetObject(PyExc_StopIteration, timeout)
    return NULL


cdef PySendResult enter_send(Entering self, PyObject *value, PyObject **result) noexcept:
    cdef Timeout timeout = self.timeout
    result[0] = NULL
    if (<enter_t>enter)(timeout) < 0:
        return PYGEN_ERROR
    result[0] = Py_NewRef(timeout)
    return PYGEN_RETURN


set_next(Entering, <void *>enter_next)
set_send(Entering, <void *>enter_send)


# ---- making them ----------------------------------------------------------------------------------------------------

cdef inline Timeout new_timeout(object when):
    cdef Timeout made = Timeout.__new__(Timeout)
    made.deadline = when
    return made


def timeout(delay):
    """Give what is awaited in an ``async with`` block `delay` seconds: as asyncio.timeout.

        async with pywheel.timeout(10):
            await long_running_task()

    When time is up, the task is cancelled, and the block raises TimeoutError. None is for no limit.

    Raises:
        RuntimeError: no loop is running.
    """
    loop = running_loop()
    if delay is None:
        return new_timeout(None)
    if PyFloat_CheckExact(delay) or PyLong_CheckExact(delay):
        if is_plain_wheel(loop):
            return new_timeout(wheel_time(loop) + PyFloat_AsDouble(delay))
    return new_timeout(loop.time() + delay)


def timeout_at(when):
    """Give what is awaited in an ``async with`` block until the loop's time is `when`: as asyncio.timeout_at.

    When time is up, the task is cancelled, and the block raises TimeoutError. None is for no limit.
    """
    return new_timeout(when)
