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
from pywheel.core.ints cimport handle_or_error, new_handle, short_int
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


# ---- arguments ------------------------------------------------------------------------------------------------------

# A plain int is read here; everything else goes to `_arguments`.


cdef inline int64_t as_tick(object value, str name) except -1:
    cdef int64_t tick = short_int(value)
    return other_tick(value, name) if unlikely(tick < 0) else tick


cdef inline int64_t as_handle(object value) except -1:
    cdef int64_t handle = short_int(value)
    return other_handle(value) if unlikely(handle < 0) else handle


cdef inline uint64_t as_key(object value) except? 0:
    cdef int64_t key = short_int(value)
    return other_key(value) if unlikely(key < 0) else key


cdef int64_t other_tick(object value, str name) except -1:
    return arguments.tick(value, name)


cdef int64_t other_handle(object value) except -1:
    return arguments.handle(value)


cdef uint64_t other_key(object value) except? 0:
    return arguments.key(value)


cdef inline int64_t as_limit(object value) except -1:
    return NEVER >> 1 if value is None else arguments.limit(value)


# ---- the lock -------------------------------------------------------------------------------------------------------

# With the GIL a method holds it from its first look at the wheel to its last write, because no Python code can run in
# between: objects are made, and references dropped, before or after. Without the GIL the critical section on the wheel
# does the same. A bulk call of a KeyWheel releases both while it works. It sets `busy` first, under them, and a thread
# that finds `busy` set waits at the gate. So the lock costs one load with a GIL, and an uncontended critical section
# without.
#
# The locks of all modules. A thread that holds one takes only those below it:
#
#   1  critical section on a Timeout       its state
#   2  critical section on a wheel         the wheel, and its timers' records of that: a Timer's fields, `_scheduled`
#   2  critical section on a TimerHandle   its other fields; no other lock is taken in it
#   3  gate of a KeyWheel                  that a bulk call is at work
#
# A bulk call takes the gate in the wheel's critical section, keeps it when it leaves that, and at its end enters that
# again. So a thread that waits for the gate holds nothing: it releases the GIL, and every critical section with it.

cdef enum:
    LONG_CALL = 4096                    # timers from which a bulk call releases the GIL

cdef int forks = 1                      # number of processes from the first to this one: the value of `busy`


def _after_fork():
    global forks
    forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


cdef int wait(_Wheel self) except -1:
    while self.busy:
        if self.busy != forks:
            raise RuntimeError("this process was forked while another thread was in a bulk call on this wheel, "
                               "whose state is lost: make a new wheel after a fork")
        with nogil:
            PyThread_acquire_lock((<KeyWheel>self).gate, WAIT_LOCK)
            PyThread_release_lock((<KeyWheel>self).gate)
    return 0


cdef inline int pass_gate(_Wheel self) except -1:
    """Return when no bulk call is at work on the wheel; first thing in a critical section."""
    return wait(self) if unlikely(self.busy) else 0


cdef int begin_bulk(KeyWheel self) except -1:
    """Take the wheel for a bulk call; until `end_bulk` it calls no Python code."""
    with critical_section(self):
        pass_gate(self)
        if unlikely(self.process != forks):
            new_gate(self)
        self.busy = forks
        PyThread_acquire_lock(self.gate, WAIT_LOCK)
    return 0


cdef int new_gate(KeyWheel self) except -1:
    """Make a gate that is free: a thread of the parent may have been in the old one, on its way through, at a fork."""
    cdef PyThread_type_lock gate = PyThread_allocate_lock()
    if gate == NULL:
        raise MemoryError
    self.gate, self.process = gate, forks       # a lock that is held cannot be freed everywhere
    return 0


cdef inline PyThreadState *let_go(uint64_t n) noexcept:
    """Release the GIL if there is work for `n` timers: taking it back may wait for another thread's whole turn."""
    return PyEval_SaveThread() if n >= LONG_CALL else NULL


cdef void end_bulk(KeyWheel self, PyThreadState *released) noexcept:
    if released != NULL:
        PyEval_RestoreThread(released)
    with critical_section(self):
        self.busy = 0
        PyThread_release_lock(self.gate)


# ---- what a wheel owns ----------------------------------------------------------------------------------------------

# A TimingWheel owns one reference for each live timer, in the node's payload. References are dropped only when the
# wheel is consistent again, since `__del__` and weak reference callbacks may call any method.
#
# What the garbage collector sees of a wheel's objects, in index order, which is the order of memory:
#
#   wheel of       what is hidden                       while                         it is seen again
#   TimingWheel    nothing
#   timeouts       nothing
#   a driver       timers beyond the first thousand,    they are pending              as they end (release_timer), or
#                  their arguments and contexts                                       leave the wheel (track_all)
#                  all timers, from one collection      it was used since the last    by the next collection
#   an EventLoop   the wheel, its handles, their        the loop runs its own turns   as a handle is cancelled or has
#                  arguments and contexts                                             run (watch), as the loop stops
#
# A hidden object counts as referred to from elsewhere, and stays alive. Without a GIL nothing is hidden.
# timers/_timers.pyx and timers/handles.pxd say why that is right.

cdef object _numbers = itertools.count(1)   # tells wheels apart; no global, which the interpreter's exit takes away


cdef void release_wheel(_Wheel self, wheel_t *old) noexcept:
    """Release the items of a detached wheel in index order, and its memory."""
    cdef walk_t walk = live_nodes(&old.arena)
    if isinstance(self, TimingWheel):
        while next_live(&walk):
            Py_DECREF(<PyObject *><uintptr_t>walk.node.payload)
    wheel_free(old)


cdef int restart(_Wheel self, uint64_t start) except -1:
    """Empty the wheel, at tick `start` or, with NEVER, where it stands; then release the items."""
    cdef wheel_t old
    cdef uint64_t number = next(_numbers)
    with critical_section(self):
        pass_gate(self)
        wheel_detach(&self.wheel, self.wheel.now if start == NEVER else start, number, &old)
    release_wheel(self, &old)
    return 0


# ---- the handle that `schedule` returns, or an error ----------------------------------------------------------------

cdef object refusal(bint full, bint no_index):
    """The error for a schedule without room: `max_pending` timers, no index left, or no memory."""
    if full:
        return WheelFull("max_pending timers are pending: cancel some, advance, or make a wheel with a higher limit")
    if no_index:
        return WheelFull("every index of the pool is used: spread the timers over several wheels")
    return MemoryError()


cdef inline object as_int(_Wheel self, uint64_t handle):
    """The new handle as an object. Without memory for that the timer is taken back."""
    cdef PyObject *number = new_handle(handle)
    if unlikely(number == NULL):
        take_back(self, handle)
    value = <object>number
    Py_DECREF(number)
    return value


cdef int take_back(_Wheel self, uint64_t handle) except -1:
    cdef uint64_t payload = 0
    cdef uint32_t index
    PyErr_Clear()
    with critical_section(self):
        pass_gate(self)
        index = arena_find(&self.wheel.arena, handle)
        if index:
            payload = wheel_remove(&self.wheel, index)
    if index and isinstance(self, TimingWheel):
        Py_DECREF(<PyObject *><uintptr_t>payload)
    raise MemoryError


cdef object refusal_of_many(bint full, bint no_index):
    """The error for timers that had no room together."""
    if full:
        return WheelFull("they would be more than max_pending timers: none of them was scheduled")
    if no_index:
        return WheelFull("the pool has not as many indices left: none of them was scheduled")
    return MemoryError()


cdef inline bytes words(uint64_t n):
    """Room for n words of 64 bits, with any content."""
    return PyBytes_FromStringAndSize(NULL, n * sizeof(uint64_t))


# ---- the wheels -----------------------------------------------------------------------------------------------------

cdef enum:
    CHUNK = 256                         # payloads on their way into a list


@cython.trashcan(True)                # a chain of wheels, each the item of the next, would overflow the stack
cdef class _Wheel:
    """The common part of both wheels."""

    def __cinit__(self):
        wheel_init(&self.wheel, 0, next(_numbers))
        self.room = NEVER

    def __init__(self, start=0, *, max_pending=None):
        cdef uint64_t tick = as_tick(start, "start")
        most = arguments.max_pending(max_pending)
        restart(self, tick)
        self.max_pending = most
        self.room = NEVER if most is None or most > NEVER else most

    def __dealloc__(self):
        cdef wheel_t old = self.wheel
        wheel_init(&self.wheel, 0, 0)
        release_wheel(self, &old)

    @classmethod
    def __class_getitem__(cls, item, /):
        return GenericAlias(cls, item)

    def __reduce__(self):
        raise TypeError(f"cannot copy or pickle {type(self).__name__!r}: its handles would not survive it")

    def __reduce_ex__(self, protocol, /):
        return self.__reduce__()

    @property
    def now(self):
        """The tick last advanced to."""
        with critical_section(self):
            pass_gate(self)
            return self.wheel.now

    def reschedule(self, handle, deadline, /):
        """Move a timer to another deadline; its handle stays valid.

        It goes behind the timers that already stand on that tick. A timer held back by a limit becomes an ordinary one.

        Args:
            handle: from `schedule`.
            deadline: absolute tick, 0 .. 2**63-1; at or before `now` it expires at the next advance.

        Returns:
            True, or False if the timer expired or was cancelled, or the handle is not of this wheel.

        Raises:
            TypeError: handle or deadline is not an int.
            OverflowError: deadline is out of range.
            MemoryError: the timer stays where it was.

        O(1); to a later deadline it touches one cache line.
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint64_t tick = as_tick(deadline, "deadline")
        cdef uint32_t index
        with critical_section(self):
            pass_gate(self)
            index = arena_find(&self.wheel.arena, number)
            if index == 0:
                return False
            if wheel_move(&self.wheel, index, tick):
                raise MemoryError
        return True

    def next_deadline(self):
        """Return a tick by which to advance: no later than the earliest deadline, no earlier than `now`; None if empty.

        It may lie before the earliest deadline, where a group of timers must be looked at again. A loop of
        ``advance(next_deadline())`` meets a bounded number of those between two timers. O(levels).
        """
        cdef uint64_t tick
        with critical_section(self):
            pass_gate(self)
            tick = wheel_next_deadline(&self.wheel)
        return None if tick == NEVER else tick

    def deadline(self, handle, /):
        """Return a timer's deadline, an absolute tick, as it was given; None if the handle is stale. O(1).

        Raises:
            TypeError: handle is not an int.
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint32_t index
        with critical_section(self):
            pass_gate(self)
            index = arena_find(&self.wheel.arena, number)
            return self.wheel.arena.nodes[index].deadline if index else None

    def reserve(self, count, /):
        """Allocate memory now for `count` pending timers, including those pending already.

        Then no `schedule` up to that number waits for the wheel to grow, nor for the system to supply memory. Without
        it a wheel grows as timers come. It keeps 32 bytes for each timer until `clear()`, used or not.

        Args:
            count: how many timers; no more than there is room for changes nothing.

        Raises:
            TypeError: count is not an int.
            ValueError: count is negative.
            WheelFull: count is more than `max_pending`, or than the wheel can hold, 2**31-1 at most.
            MemoryError: everything is as it was.

        O(count), at the speed at which the system clears memory; other threads wait.
        """
        cdef uint64_t number = arguments.room(count)
        cdef bint full, failed = False, no_index = False
        with critical_section(self):
            pass_gate(self)
            full = number > self.room
            if not full and number > self.wheel.live:
                failed = arena_touch(&self.wheel.arena, number - self.wheel.live)
                no_index = failed and indices_are_out(&self.wheel.arena, number - self.wheel.live)
        if full:
            raise WheelFull("more than max_pending timers can never be pending")
        if failed:
            raise WheelFull("a wheel has fewer indices than that") if no_index else MemoryError()

    def clear(self):
        """Cancel every timer and free the memory. `now` stays; all handles given so far are stale for good. O(n).
        """
        restart(self, NEVER)

    def __len__(self):
        """Return the number of pending timers, including those held back by a limit. O(1)."""
        with critical_section(self):
            pass_gate(self)
            return self.wheel.live

    def __contains__(self, handle):
        """Return whether the timer is pending. TypeError if handle is not an int. O(1)."""
        cdef uint64_t number = as_handle(handle)
        with critical_section(self):
            pass_gate(self)
            return arena_find(&self.wheel.arena, number) != 0

    def __iter__(self):
        """Iterate over the handles of the timers pending at the moment of the call, in no particular order. O(n)."""
        cdef walk_t walk
        cdef list handles = []
        with critical_section(self):
            pass_gate(self)
            walk = live_nodes(&self.wheel.arena)
            while next_live(&walk):
                handles.append(arena_handle(&self.wheel.arena, walk.index))
        return iter(handles)

    def __sizeof__(self):
        """Return the bytes of memory that the wheel owns, without items."""
        cdef size_t size
        with critical_section(self):
            pass_gate(self)
            size = wheel_bytes(&self.wheel)
        return type(self).__basicsize__ + size

    def _check(self):
        """Recompute every invariant slowly; RuntimeError names a broken one. For tests. O(n).
        """
        cdef const char *wrong
        with critical_section(self):
            pass_gate(self)
            wrong = wheel_check(&self.wheel)
        if wrong != NULL:
            raise RuntimeError(wrong.decode())


@cython.trashcan(True)
cdef class TimingWheel(_Wheel):
    """TimingWheel(start=0, *, max_pending=None)\n--\n
    A hierarchical timing wheel: timers on integer ticks, each with any object as its item.

    It has no clock and calls nothing: `advance` returns the items that expired. Safe to call from several threads.

    Args:
        start: the tick it stands at, 0 .. 2**63-1.
        max_pending: how many timers it may hold before `schedule` raises WheelFull; None for no limit.

    Attributes:
        now: the tick last advanced to.
        max_pending: as given.
    """

    def schedule(self, deadline, item=None, /):
        """Add a timer and return its handle.

        Args:
            deadline: absolute tick, 0 .. 2**63-1; at or before `now` it expires at the next advance.
            item: what `advance` returns for it.

        Returns:
            An int that stands for this timer, and never for another one of this wheel.

        Raises:
            TypeError: deadline is not an int.
            OverflowError: deadline is out of range.
            WheelFull: `max_pending` timers are pending, or as many as a wheel can hold, 2**31-1 at most.
            MemoryError: every other timer is still there.

        O(1).
        """
        cdef uint64_t tick = as_tick(deadline, "deadline")
        cdef uint64_t handle = 0
        cdef bint full, no_index = False
        with critical_section(self):
            full = self.wheel.live >= self.room
            if not full:
                handle = wheel_schedule(&self.wheel, tick, <uintptr_t><PyObject *>item)
                if handle:
                    Py_INCREF(item)
                else:
                    no_index = indices_are_out(&self.wheel.arena, 1)
        if unlikely(handle == 0):
            raise refusal(full, no_index)
        return as_int(self, handle)

    def cancel(self, handle, /):
        """Remove a timer and release its item before returning.

        Returns:
            True, or False if the timer expired or was cancelled already, or the handle is not of this wheel.

        Raises:
            TypeError: handle is not an int.

        O(1).
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint32_t index
        cdef PyObject *item
        with critical_section(self):
            index = arena_find(&self.wheel.arena, number)
            if index == 0:
                return False
            item = <PyObject *><uintptr_t>wheel_remove(&self.wheel, index)
        Py_DECREF(item)
        return True

    def advance(self, now, limit=None, /):
        """Go to tick `now` and return the items of the timers that expired.

        Order: by deadline; timers of one tick in the order of their last schedule or reschedule.

        Args:
            now: tick, from the present `now` to 2**63-1.
            limit: how many may come back, None for all. The rest is held back: it comes first at the next call, in its
                order, counts in ``len``, and can still be cancelled.

        Returns:
            A list of items.

        Raises:
            TypeError: an argument is not an int.
            OverflowError: now is out of range.
            ValueError: now lies before the present `now`, or limit is negative.
            MemoryError: `now` may have moved; nothing is lost, and another advance goes on.

        O(timers expired and cascaded), however many ticks pass.
        """
        cdef uint64_t tick = as_tick(now, "now")
        cdef uint64_t most = as_limit(limit), count, popped = 0, got, i
        cdef uint64_t chunk[CHUNK]
        cdef bint early, failed
        cdef list expired
        with critical_section(self):
            early = tick < self.wheel.now
            failed = not early and wheel_advance(&self.wheel, tick, most)
            count = min(most, self.wheel.ready_live)
        if unlikely(early or failed):
            raise arguments.backwards() if early else MemoryError()
        expired = PyList_New(count)         # may run the garbage collector, and Python code that calls back
        with critical_section(self):
            while popped < count:
                got = wheel_pop(&self.wheel, chunk, min(count - popped, <uint64_t>CHUNK))
                if got == 0:
                    break
                for i in range(got):
                    PyList_SET_ITEM(expired, popped + i, <PyObject *><uintptr_t>chunk[i])
                popped += got
        if unlikely(popped < count):        # that happened
            Py_SET_SIZE(<PyObject *>expired, popped)
        return expired

    def get(self, handle, default=None, /):
        """Return a pending timer's item, or `default` if the handle is stale. TypeError if it is not an int. O(1).
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint32_t index
        with critical_section(self):
            index = arena_find(&self.wheel.arena, number)
            if index:
                default = <object><PyObject *><uintptr_t>self.wheel.arena.nodes[index].payload
        return default

    def schedule_many(self, deadlines, items):
        """Add one timer for each pair of the two sequences, all of them or none. It needs no NumPy.

        Args:
            deadlines: absolute ticks, 0 .. 2**63-1.
            items: what `advance` returns for them.

        Returns:
            A list of the handles.

        Raises:
            TypeError: a deadline is not an int, or an argument is not a sequence.
            ValueError: the numbers of deadlines and items differ.
            OverflowError: a deadline is out of range.
            WheelFull: they do not all fit under `max_pending`, or into a wheel.
            MemoryError: nothing was changed.

        O(n).
        """
        cdef tuple when = tuple(deadlines), what = tuple(items)
        cdef uint64_t n = len(when), i
        cdef bytes ticks = words(n), numbers = words(n)
        cdef uint64_t *tick = <uint64_t *>PyBytes_AS_STRING(ticks)
        cdef uint64_t *number = <uint64_t *>PyBytes_AS_STRING(numbers)
        cdef bint full, no_index = False
        cdef int failed = 0
        if n != <uint64_t>len(what):
            arguments.same_length(when, what, "deadlines and items")
        for i in range(n):
            tick[i] = as_tick(<object>PyTuple_GET_ITEM(when, i), "deadline")
            number[i] = <uintptr_t>PyTuple_GET_ITEM(what, i)
        handles = PyList_New(n)             # may run the garbage collector, and Python code that calls back
        with critical_section(self):
            full = n > self.room or self.wheel.live > self.room - n
            if not full:
                failed = wheel_schedule_many(&self.wheel, n, tick, number, number)
                no_index = failed and indices_are_out(&self.wheel.arena, n)
                if not failed:
                    for i in range(n):
                        Py_INCREF(<object>PyTuple_GET_ITEM(what, i))
        if full or failed:
            raise refusal_of_many(full, no_index)
        try:
            for i in range(n):
                PyList_SET_ITEM(handles, i, handle_or_error(number[i]))
        except MemoryError:
            cancel_all(self, n, number, <uint8_t *>tick, NULL)
            raise
        return handles

    def cancel_many(self, handles):
        """Remove the timers of a sequence, in order, and release their items before returning. It needs no NumPy.

        Returns:
            A list of bools: which timers were pending.

        Raises:
            TypeError: a handle is not an int, or the argument is not a sequence: no timer was removed.
            MemoryError: nothing was changed.

        O(n).
        """
        cdef tuple which = tuple(handles)
        cdef uint64_t n = len(which), i
        cdef bytes numbers = words(n), flags = words((n + 7) >> 3)
        cdef uint64_t *number = <uint64_t *>PyBytes_AS_STRING(numbers)
        for i in range(n):
            number[i] = as_handle(<object>PyTuple_GET_ITEM(which, i))
        found = PyList_New(n)               # as above
        cancel_all(self, n, number, <uint8_t *>PyBytes_AS_STRING(flags), <PyObject *>found)
        return found


cdef int cancel_all(TimingWheel self, uint64_t n, uint64_t *numbers, uint8_t *was, PyObject *found) except -1:
    """Cancel the timers of the handles in `numbers`; write to `was`, and to a list if given, which were there."""
    cdef uint64_t i
    with critical_section(self):
        wheel_cancel_many(&self.wheel, n, numbers, was, numbers)
    if found != NULL:
        for i in range(n):
            PyList_SET_ITEM(<list>found, i, new_bool(was[i]))
    for i in range(n):
        if was[i]:
            Py_DECREF(<PyObject *><uintptr_t>numbers[i])
    return 0


# Cython writes tp_traverse and tp_clear for the attributes it knows; these add the items. They find the struct by its
# offset, since a cast to the class would count a reference while the collector is counting.

cdef traverseproc traverse_attributes = (<PyTypeObject *>TimingWheel).tp_traverse
cdef inquiry clear_attributes = (<PyTypeObject *>TimingWheel).tp_clear
cdef TimingWheel _any = TimingWheel()
cdef size_t offset = <size_t>(<char *>&_any.wheel - <char *><PyObject *>_any)


cdef int traverse_items(PyObject *self, visitproc visit, void *arg) noexcept:
    cdef const wheel_t *w = <wheel_t *>(<char *>self + offset)
    cdef walk_t walk = live_nodes(&w.arena)
    cdef int stop
    while next_live(&walk):
        stop = visit(<PyObject *><uintptr_t>walk.node.payload, arg)
        if stop:
            return stop
    return traverse_attributes(self, visit, arg)


cdef int clear_items(PyObject *self) noexcept:
    restart(<TimingWheel>self, NEVER)
    return clear_attributes(self)


(<PyTypeObject *>TimingWheel).tp_traverse = traverse_items
(<PyTypeObject *>TimingWheel).tp_clear = clear_items


cdef class KeyWheel(_Wheel):
    """KeyWheel(start=0, *, max_pending=None)\n--\n
    A hierarchical timing wheel whose timers carry a 64-bit integer key instead of an object.

    The `*_many` methods take and give NumPy arrays; from about a dozen timers on they are faster than a loop, and from
    a few thousand on they let other threads run meanwhile. They accept any integer dtype, or a sequence of ints, of one
    dimension; contiguous arrays of 64 bits are used without a copy. A bad argument leaves the wheel unchanged.

    Args:
        start: the tick it stands at, 0 .. 2**63-1.
        max_pending: how many timers it may hold before `schedule` raises WheelFull; None for no limit.

    Attributes:
        now: the tick last advanced to.
        max_pending: as given.
    """

    def __cinit__(self):
        new_gate(self)

    def __dealloc__(self):
        if self.gate != NULL:
            PyThread_free_lock(self.gate)

    def schedule(self, deadline, key, /):
        """Add a timer and return its handle.

        Args:
            deadline: absolute tick, 0 .. 2**63-1; at or before `now` it expires at the next advance.
            key: what `advance` returns for it, 0 .. 2**64-1; keys need not differ.

        Returns:
            An int that stands for this timer, and never for another one of this wheel.

        Raises:
            TypeError: an argument is not an int.
            OverflowError: an argument is out of range.
            WheelFull: `max_pending` timers are pending, or as many as a wheel can hold, 2**31-1 at most.
            MemoryError: every other timer is still there.

        O(1).
        """
        cdef uint64_t tick = as_tick(deadline, "deadline")
        cdef uint64_t payload = as_key(key)
        cdef uint64_t handle = 0
        cdef bint full, no_index = False
        with critical_section(self):
            pass_gate(self)
            full = self.wheel.live >= self.room
            if not full:
                handle = wheel_schedule(&self.wheel, tick, payload)
                no_index = handle == 0 and indices_are_out(&self.wheel.arena, 1)
        if unlikely(handle == 0):
            raise refusal(full, no_index)
        return as_int(self, handle)

    def cancel(self, handle, /):
        """Remove a timer.

        Returns:
            True, or False if the timer expired or was cancelled already, or the handle is not of this wheel.

        Raises:
            TypeError: handle is not an int.

        O(1).
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint32_t index
        with critical_section(self):
            pass_gate(self)
            index = arena_find(&self.wheel.arena, number)
            if index:
                wheel_remove(&self.wheel, index)
        return index != 0

    def advance(self, now, limit=None, /):
        """Go to tick `now` and return the keys of the timers that expired.

        Order: by deadline; timers of one tick in the order of their last schedule or reschedule.

        Args:
            now: tick, from the present `now` to 2**63-1.
            limit: how many may come back, None for all. The rest is held back: it comes first at the next call, in its
                order, counts in ``len``, and can still be cancelled.

        Returns:
            A list of ints.

        Raises:
            TypeError: an argument is not an int.
            OverflowError: now is out of range.
            ValueError: now lies before the present `now`, or limit is negative.
            MemoryError: `now` may have moved; nothing is lost, and another advance goes on.

        O(timers expired and cascaded), however many ticks pass.
        """
        cdef uint64_t tick = as_tick(now, "now")
        cdef uint64_t most = as_limit(limit), count, done = 0, position = 0, got, i
        cdef uint64_t chunk[CHUNK]
        cdef bint early, failed
        cdef list expired
        with critical_section(self):
            pass_gate(self)
            early = tick < self.wheel.now
            failed = not early and wheel_advance(&self.wheel, tick, most)
            count = min(most, self.wheel.ready_live)
        if unlikely(early or failed):
            raise arguments.backwards() if early else MemoryError()
        expired = PyList_New(count)         # may run the garbage collector, and Python code that calls back
        with critical_section(self):
            pass_gate(self)
            count = min(count, self.wheel.ready_live)
            while done < count:             # read first, because an int may find no memory
                got = wheel_peek(&self.wheel, &position, chunk, min(count - done, <uint64_t>CHUNK))
                for i in range(got):
                    PyList_SET_ITEM(expired, done + i, new_int(chunk[i]))
                done += got
            while done:
                done -= wheel_pop(&self.wheel, chunk, min(done, <uint64_t>CHUNK))
        Py_SET_SIZE(<PyObject *>expired, count)
        return expired

    def get(self, handle, default=None, /):
        """Return a pending timer's key, or `default` if the handle is stale. TypeError if it is not an int. O(1).
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint32_t index
        with critical_section(self):
            pass_gate(self)
            index = arena_find(&self.wheel.arena, number)
            return self.wheel.arena.nodes[index].payload if index else default

    def schedule_many(self, deadlines, keys):
        """Add one timer for each pair of the two arrays, all of them or none.

        Args:
            deadlines: shape (n,), integers: absolute ticks, 0 .. 2**63-1.
            keys: shape (n,), integers, 0 .. 2**64-1.

        Returns:
            The handles: shape (n,), uint64.

        Raises:
            TypeError: a dtype is not of integers.
            ValueError: the arrays do not have one dimension and the same length.
            OverflowError: a value is out of range.
            WheelFull: they do not all fit under `max_pending`, or into a wheel.
            MemoryError: nothing was changed.
            ImportError: NumPy is missing.

        O(n).
        """
        cdef Words when = Words(deadlines, arguments.deadlines, TICKS)
        cdef Words what = Words(keys, arguments.keys, KEYS)
        same_length(when, what, "deadlines and keys")
        cdef object handles = new_handles(when.n)
        cdef Words out = Words(handles, None, RESULT)
        cdef uint64_t n = when.n
        cdef int failed = 0
        cdef bint full, no_index = False
        begin_bulk(self)
        cdef PyThreadState *released = let_go(n)
        full = n > self.room or self.wheel.live > self.room - n
        if not full:
            failed = wheel_schedule_many(&self.wheel, n, when.at, what.at, out.at)
            no_index = failed and indices_are_out(&self.wheel.arena, n)
        end_bulk(self, released)
        if full or failed:
            raise refusal_of_many(full, no_index)
        return handles

    def reschedule_many(self, handles, deadlines):
        """Move one timer for each pair of the two arrays, in array order.

        Args:
            handles: shape (n,), integers.
            deadlines: shape (n,), integers: absolute ticks, 0 .. 2**63-1.

        Returns:
            Which timers were pending: shape (n,), bool.

        Raises:
            TypeError: a dtype is not of integers.
            ValueError: the arrays do not have one dimension and the same length.
            OverflowError: a deadline is out of range.
            MemoryError: nothing was changed.
            ImportError: NumPy is missing.

        O(n).
        """
        cdef Words which = Words(handles, arguments.handles, HANDLES)
        cdef Words when = Words(deadlines, arguments.deadlines, TICKS)
        same_length(which, when, "handles and deadlines")
        cdef object found = new_flags(which.n)
        cdef Words out = Words(found, None, RESULT)
        cdef int failed
        begin_bulk(self)
        cdef PyThreadState *released = let_go(which.n)
        failed = wheel_reschedule_many(&self.wheel, which.n, which.at, when.at, <uint8_t *>out.at)
        end_bulk(self, released)
        if failed:
            raise MemoryError
        return found

    def cancel_many(self, handles):
        """Remove the timers, in array order.

        Args:
            handles: shape (n,), integers.

        Returns:
            Which timers were pending: shape (n,), bool.

        Raises:
            TypeError: the dtype is not of integers.
            ValueError: the array does not have one dimension.
            MemoryError: nothing was changed.
            ImportError: NumPy is missing.

        O(n).
        """
        cdef Words which = Words(handles, arguments.handles, HANDLES)
        cdef object found = new_flags(which.n)
        cdef Words out = Words(found, None, RESULT)
        begin_bulk(self)
        cdef PyThreadState *released = let_go(which.n)
        wheel_cancel_many(&self.wheel, which.n, which.at, <uint8_t *>out.at, NULL)
        end_bulk(self, released)
        return found

    def advance_many(self, now, limit=None):
        """Go to tick `now` and return the keys of the timers that expired, as `advance` does, in an array.

        Args, errors and order: as for `advance`; ImportError if NumPy is missing.

        Returns:
            The keys: shape (number expired,), uint64.

        O(timers expired and cascaded), however many ticks pass.
        """
        cdef uint64_t tick = as_tick(now, "now")
        cdef uint64_t most = as_limit(limit), count, there
        cdef bint early, failed
        cdef object keys
        cdef Words out
        cdef PyThreadState *released
        need_numpy()
        begin_bulk(self)
        released = let_go(self.wheel.live)
        early = tick < self.wheel.now
        failed = not early and wheel_advance(&self.wheel, tick, most)
        count = min(most, self.wheel.ready_live)
        end_bulk(self, released)
        if early or failed:
            raise arguments.backwards() if early else MemoryError()
        while True:
            keys = new_handles(count)           # the last step that can fail, before the first timer is taken
            out = Words(keys, None, RESULT)
            begin_bulk(self)
            there = min(count, self.wheel.ready_live)
            if there == count:
                wheel_pop(&self.wheel, out.at, count)
            end_bulk(self, NULL)
            if there == count:
                return keys
            count = there                               # another thread has taken some


# ---- arrays for the bulk calls --------------------------------------------------------------------------------------

cdef enum:
    TICKS                               # integers without the top bit
    KEYS                                # integers, not negative
    HANDLES                             # any integers: most ints are not handles
    RESULT                              # an array of our own, to write to

cdef object numpy_empty = None
cdef object UINT64, BOOL


cdef int need_numpy() except -1:
    """ImportError without NumPy."""
    global numpy_empty, UINT64, BOOL
    if numpy_empty is None:
        numpy = arguments.numpy()
        UINT64, BOOL = numpy.dtype("uint64"), numpy.dtype("bool")
        numpy_empty = numpy.empty
    return 0


cdef object new_handles(uint64_t n):
    """An array of n elements of 64 bits, with any content."""
    need_numpy()
    return numpy_empty(n, UINT64)


cdef object new_flags(uint64_t n):
    """An array of n truth values, with any content."""
    need_numpy()
    return numpy_empty(n, BOOL)


cdef inline int same_length(Words first, Words second, str names) except -1:
    if first.n != second.n:
        arguments.same_length(first, second, names)
    return 0


@cython.final
@cython.internal
@cython.freelist(8)
@cython.no_gc                          # a call holds a reference to the owner of the buffer
cdef class Words:
    """A contiguous array of 64-bit integers, held open while a bulk call reads it, or one of results to write to."""
    cdef Py_buffer view
    cdef bint is_open
    cdef uint64_t n
    cdef uint64_t *at

    def __cinit__(self, object values, object normalise, int kind):
        if kind == RESULT:
            self.open(values, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
        elif not self.open_as_it_is(values) or self.has_bad(kind):
            self.close()
            self.open(normalise(values), PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)

    def __dealloc__(self):
        self.close()

    def __len__(self):
        return self.n

    cdef int open(self, object values, int flags) except -1:
        PyObject_GetBuffer(values, &self.view, flags)
        self.is_open = True
        self.n = <uint64_t>self.view.len // sizeof(uint64_t)    # not by an itemsize, which may be 0
        self.at = <uint64_t *>self.view.buf
        return 0

    cdef void close(self) noexcept:
        if self.is_open:
            self.is_open = False
            PyBuffer_Release(&self.view)

    cdef bint open_as_it_is(self, object values) except -1:
        """Whether `values` can be read in place, and is now open."""
        if not PyObject_CheckBuffer(values):
            return False
        try:
            self.open(values, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
        except (BufferError, ValueError):
            return False
        return (self.view.ndim == 1 and self.view.itemsize == 8 and <uintptr_t>self.view.buf % 8 == 0
                and self.view.format != NULL and self.view.format[0] in b"lqLQ" and self.view.format[1] == 0)

    cdef bint has_bad(self, int kind) noexcept:
        """Whether there is a value that `normalise` has to name in an error."""
        cdef uint64_t bits = 0, i
        if kind == HANDLES or (kind == KEYS and self.view.format[0] in b"LQ"):
            return False
        for i in range(self.n):
            bits |= self.at[i]
        return bits >> 63
