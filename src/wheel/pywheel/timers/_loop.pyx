"""The native half of `EventLoop`: the handles, the scheduling and the turns of an asyncio loop, on a TimingWheel."""

# A loop belongs to one thread, here as in asyncio. Handles are changed under their lock, and the wheel under its own.
# So a misuse from other threads has the same effect on a free-threaded Python as under the GIL: no harm to memory.

cimport cython

import selectors
import sys
from asyncio import base_events, events, format_helpers
from inspect import signature
from operator import attrgetter
from types import MemberDescriptorType

from cpython.object cimport PyObject
from cython cimport critical_section
from libc.math cimport INFINITY
from libc.stdint cimport uint32_t, uint64_t, uintptr_t

from pywheel.core._wheel cimport TimingWheel
from pywheel.core.advance cimport is_behind, must_wait, next_occupied, wheel_advance_some, wheel_pop
from pywheel.core.arena cimport GEN_BITS, arena_find, live_nodes, next_live, walk_t
from pywheel.core.bits cimport DIGIT_BITS, HAS_GIL, SLOT_MASK, unlikely
from pywheel.core.levels cimport wheel_t
from pywheel.core.schedule cimport wheel_remove, wheel_schedule
from pywheel.timers.contexts cimport (PyContext_CopyCurrent, PyTypeObject, Py_DECREF, Py_NewRef, Py_TYPE,
                                      find_variables, make_context, snapshot)
from pywheel.timers.fastcall cimport add_method, as_tuple, context_of, in_full, is_usual
from pywheel.timers.handle_type cimport derive
from pywheel.timers.handles cimport (PyContext_CheckExact, PyObject_GC_Track,
                                     PyObject_GC_UnTrack, PyTuple_CheckExact, PyTuple_GET_SIZE, Py_False, Py_REFCNT,
                                     TIMER_HANDLE, bare_timer, clear_slots, dealloc, fill_constants, release_args,
                                     release_context, traverse_slots, watch, watch_again)
from pywheel.timers.seconds cimport (PyFloat_AS_DOUBLE, PyFloat_AsDouble, PyFloat_CheckExact, TICKS_PER_SECOND,
                                     as_due, check, monotonic, tick_of)
from pywheel.timers.slots cimport (ARGS, CALLBACK, CANCELLED, CONTEXT, FIELDS, LOOP, Py_INCREF, Py_XDECREF, REPR,
                                   SCHEDULED, TRACEBACK, WEAKREFS, WHEN, at, fields, fields_t, fill, replace, taken)
from pywheel.timers.versions cimport version_of

from pywheel._seconds import LONGEST as _LONGEST
from pywheel.clock import monotonic_or
from pywheel.timers._arguments import turn_limit

cdef extern from "Python.h":
    ctypedef struct type_t "PyTypeObject":
        type_t *tp_base
        Py_ssize_t tp_weaklistoffset
    PyObject *Py_None
    PyObject *Py_True
    int PyContext_Enter(object context)
    int PyContext_Exit(object context)
    double PyLong_AsDouble(object value) except? -1
    bint PyLong_CheckExact(object value)
    int PyObject_GenericSetAttr(object owner, object name, PyObject *value) except -1
    PyObject *PyObject_Vectorcall(object callback, PyObject *const *args, size_t count, PyObject *names)
    void Py_CLEAR(PyObject *value)
    list PyList_New(Py_ssize_t size)
    void PyList_SET_ITEM(object items, Py_ssize_t i, PyObject *value)
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t items)
    void Py_SET_SIZE(object value, Py_ssize_t size)


# ---- where the slots of handles lie, and what contexts are ----------------------------------------------------------

cdef extern from *:
    """
    #include "structmember.h"
    #define pywheel_offset(descriptor) (((PyMemberDescrObject *)(descriptor))->d_member->offset)
    """
    Py_ssize_t offset_of "pywheel_offset"(object descriptor)

cdef set KNOWN = {"_args", "_callback", "_cancelled", "_context", "_loop", "_repr", "_scheduled", "_source_traceback",
                  "_when", "__weakref__"}                   # of Python 3.11 to 3.14


cdef int check_slots() except -1:
    """ImportError if asyncio's handles have other slots than the known ones: a new slot would never be filled."""
    found = {*getattr(events.Handle, "__slots__", ()), *getattr(events.TimerHandle, "__slots__", ())}
    if found != KNOWN:
        raise ImportError(f"the handles of this Python's asyncio have other slots than pywheel knows: "
                          f"{', '.join(sorted(found ^ KNOWN))}")
    return 0


cdef Py_ssize_t slot(type owner, str name) except -1:
    """The offset of a slot in the instances of a class."""
    descriptor = vars(owner).get(name)
    if type(descriptor) is not MemberDescriptorType:
        raise ImportError(f"asyncio's {owner.__name__} has no slot {name} in this Python")
    return offset_of(descriptor)


check_slots()

CALLBACK = slot(events.Handle, "_callback")
ARGS = slot(events.Handle, "_args")
CANCELLED = slot(events.Handle, "_cancelled")
CONTEXT = slot(events.Handle, "_context")
LOOP = slot(events.Handle, "_loop")
REPR = slot(events.Handle, "_repr")
TRACEBACK = slot(events.Handle, "_source_traceback")
SCHEDULED = slot(events.TimerHandle, "_scheduled")
WHEN = slot(events.TimerHandle, "_when")
FIELDS = events.TimerHandle.__basicsize__


find_variables()


# ---- the handle of a timer ------------------------------------------------------------------------------------------

# A TimerHandle is asyncio's with two fields behind the slots and a native `cancel`. While it is pending it is the item
# of its node: the wheel owns a reference to it. Its `_when` becomes an object on first access.


cdef object new_handle(WheelScheduling loop, object callback, tuple args, PyObject *context):
    """Make a handle as `Handle.__init__` does, except for the debug mode."""
    cdef object made = PyType_GenericAlloc(HANDLE, 0)
    cdef PyObject *handle = <PyObject *>made
    at(handle, CONTEXT)[0] = PyContext_CopyCurrent() if context == NULL else Py_NewRef(context)
    fill_constants(handle)
    fill(handle, LOOP, <PyObject *>loop)
    fill(handle, CALLBACK, <PyObject *>callback)
    fill(handle, ARGS, <PyObject *>args)
    return made


cdef object cancel(PyObject *handle, PyObject *unused):
    """TimerHandle.cancel: take the timer out of the wheel first, then do the rest as asyncio does."""
    cdef PyObject *callback = NULL
    cdef PyObject *args = NULL
    cdef object loop
    if at(handle, CANCELLED)[0] == Py_True:
        return None
    with critical_section(<object>handle):
        loop = <object>at(handle, LOOP)[0] if at(handle, LOOP)[0] != NULL else None
    if not is_loop(loop) or (<WheelScheduling>loop)._debug:
        return cancel_slowly(<object>handle)
    remove(<WheelScheduling>loop, handle)
    with critical_section(<object>handle):
        if at(handle, CANCELLED)[0] != Py_True:
            at(handle, CANCELLED)[0] = Py_NewRef(Py_True)       # False needs no release
            callback = replace(handle, CALLBACK, Py_None)
            args = replace(handle, ARGS, Py_None)
    watch(handle)
    Py_XDECREF(callback)
    release_args(args)
    return None


cdef object cancel_slowly(handle):
    """TimerHandle.cancel in debug mode, and for a handle whose loop is not the one that made it."""
    if isinstance(handle._loop, WheelScheduling):
        remove(<WheelScheduling>handle._loop, <PyObject *>handle)
        watch(<PyObject *>handle)
    stock_cancel(handle)


cdef inline bint is_loop(object value):
    """isinstance(value, WheelScheduling), most often at once."""
    cdef type_t *type = <type_t *>Py_TYPE(<PyObject *>value)
    return type.tp_base == <type_t *>WheelScheduling or isinstance(value, WheelScheduling)


cdef PyObject *get_when(PyObject *handle, void *unused) except NULL:
    """`_when`, made from `due` unless `call_at` was given another object."""
    cdef PyObject *when
    cdef object due
    with critical_section(<object>handle):
        if at(handle, WHEN)[0] == NULL:
            due = fields(handle).due
            fill(handle, WHEN, <PyObject *>due)
        when = Py_NewRef(at(handle, WHEN)[0])
    return when


cdef int set_when(PyObject *handle, PyObject *when, void *unused) except -1:
    cdef PyObject *old
    if when == NULL:
        raise AttributeError("_when")
    with critical_section(<object>handle):
        old = replace(handle, WHEN, when)
    Py_XDECREF(old)
    return 0


cdef PyObject *get_context(PyObject *handle, void *unused) except NULL:
    cdef PyObject *context = NULL
    cdef bint made
    with critical_section(<object>handle):
        made = make_context(handle)
        if made and at(handle, CONTEXT)[0] != NULL:
            context = Py_NewRef(at(handle, CONTEXT)[0])
    if made and context == NULL:
        raise AttributeError("_context")
    return context


cdef int set_context(PyObject *handle, PyObject *context, void *unused) except -1:
    """Set or, with NULL, delete `_context`: the old one is released as it expects."""
    cdef PyObject *old
    with critical_section(<object>handle):
        old = taken(handle, CONTEXT)
        if context != NULL:
            fill(handle, CONTEXT, context)
    release_context(old)
    return 0


TimerHandle = derive("pywheel.timers._loop.TimerHandle", (events.TimerHandle,), FIELDS + sizeof(fields_t),
                     <void *>cancel, <void *>traverse_slots, <void *>clear_slots, <void *>dealloc, <void *>get_when,
                     <void *>set_when, <void *>get_context, <void *>set_context)
TIMER_HANDLE = <PyTypeObject *>TimerHandle
WEAKREFS = (<type_t *>TimerHandle).tp_weaklistoffset
cdef PyTypeObject *HANDLE = <PyTypeObject *>events.Handle

cdef object stock_cancel = events.TimerHandle.cancel


# ---- timers come onto the wheel, and go from it ---------------------------------------------------------------------

cdef object add(WheelScheduling self, object when, double due, object callback, tuple args, PyObject *context):
    """Make the handle of a timer, and put it on the wheel. `when` is None if it equals `due`.

    If `args` are not empty, this function has the only reference to them.
    """
    cdef PyObject *handle = bare_timer()
    cdef object made = <object>handle
    cdef bint quiet = HAS_GIL and self.quiet
    Py_DECREF(handle)
    if context != NULL:
        fill(handle, CONTEXT, context)
    else:
        context = at(handle, CONTEXT)[0] = snapshot()
        if quiet and PyContext_CheckExact(context):
            PyObject_GC_UnTrack(context)
    fill(handle, LOOP, <PyObject *>self)
    fill(handle, CALLBACK, <PyObject *>callback)
    fill(handle, ARGS, <PyObject *>args)
    if when is not None:
        fill(handle, WHEN, <PyObject *>when)
    fields(handle).due = due
    if not quiet:
        PyObject_GC_Track(handle)
    elif len(args):
        PyObject_GC_UnTrack(<PyObject *>args)
    if unlikely(self._debug):
        made._source_traceback = format_helpers.extract_stack(sys._getframe())
    if put(self, handle):
        raise MemoryError
    return made


cdef int put(WheelScheduling self, PyObject *handle) noexcept:
    """Put a handle on the wheel; -1 if memory is out."""
    cdef wheel_t *w = &self.timers.wheel
    cdef uint64_t tick = tick_of(fields(handle).due)
    cdef bint failed = True
    with critical_section(self.timers):
        fields(handle).timer = wheel_schedule(w, tick, <uintptr_t>handle)
        if fields(handle).timer:
            Py_INCREF(handle)
            Py_XDECREF(replace(handle, SCHEDULED, Py_True))     # a bool: no code runs
            failed = False
            if tick <= w.now:
                self.early = min(self.early, fields(handle).due)
    return -failed


cdef void remove(WheelScheduling self, PyObject *handle) noexcept:
    """Take a handle out of the wheel, if it is there. The caller has a reference to it."""
    cdef uint32_t index
    cdef PyObject *scheduled = NULL
    with critical_section(self.timers):
        index = arena_find(&self.timers.wheel.arena, fields(handle).timer)
        if index:
            wheel_remove(&self.timers.wheel, index)
            scheduled = replace(handle, SCHEDULED, Py_False)
    if index:
        Py_XDECREF(scheduled)
        Py_DECREF(handle)


# ---- the loop: what it keeps, what asyncio's code finds in it, what subclasses override -----------------------------

cdef tuple OVERRIDABLE = ("time", "call_at", "_call_soon", "_run_once")

cdef object epoll_selector = getattr(selectors, "EpollSelector", None)


@cython.no_gc_clear                     # a loop in collection may still be asked to cancel or to close
cdef class WheelScheduling:
    """Asyncio's scheduling on a timing wheel: a base class before BaseEventLoop or a loop derived from it.

    Args:
        clock: the source of `time`, a Clock; None for the system's monotonic clock.
        limit: how many timers a turn of the loop runs at most.

    All other arguments go to the next class.

    Raises:
        TypeError: limit is not an int, or clock not a Clock.
        ValueError: limit is less than 1.
    """
    cdef TimingWheel timers
    cdef double early                   # the earliest `when` on a tick that the wheel has reached; infinity if none
    cdef uint64_t limit
    cdef readonly object _clock
    cdef unsigned int version           # of its class, at the last look at that
    cdef bint own_time                  # whether no subclass or program overrides `time`,
    cdef bint own_call_at               # `call_at`,
    cdef bint own_call_soon             # `_call_soon`,
    cdef bint own_run_once              # or `_run_once`
    cdef object thread                  # the thread in which it runs, or None
    cdef bint quiet                     # whether the garbage collector may skip its timers,
    cdef uint64_t since                 # of those scheduled after this sequence number
    cdef object selector
    cdef int epoll                      # file descriptor, or -1 if the selector is another one
    cdef list shown                     # the last `_scheduled`, until the next turn,
    cdef tuple pending                  # and its content
    cdef public object _ready           # asyncio's own attributes, which it reads and writes by these names
    cdef public bint _closed
    cdef public bint _debug
    cdef public bint _stopping

    def __cinit__(self, *args, **kwargs):
        self.timers = TimingWheel()
        self.early = INFINITY
        self.epoll = -1
        self._closed = True             # until there is something to close

    def __init__(self, *args, clock=None, limit=1_000, **kwargs):
        self.limit = turn_limit(limit)
        self._clock = None if clock is None else monotonic_or(clock)
        self.look()
        if self.own_time:
            self.timers = TimingWheel(tick_of(self.now()))      # otherwise the first turn would move all timers down
        super().__init__(*args, **kwargs)

    def __setattr__(self, name, value):
        PyObject_GenericSetAttr(self, name, <PyObject *>value)
        if name in OVERRIDABLE:
            self.look()

    def __delattr__(self, name):
        PyObject_GenericSetAttr(self, name, NULL)
        if name in OVERRIDABLE:
            self.look()

    cdef int look(self) except -1:
        """Find the methods that a subclass has overridden, or a program has replaced in this loop."""
        loops = WheelScheduling, WheelScheduling, base_events.BaseEventLoop, WheelScheduling
        self.own_time, self.own_call_at, self.own_call_soon, self.own_run_once = [
            getattr(type(self), name, None) is getattr(loop, name)
            and getattr(self, name) == getattr(loop, name).__get__(self)        # `__dict__` would make a dict of it
            for name, loop in zip(OVERRIDABLE, loops)]
        self.version = version_of(self)
        if self.quiet and not self.own_run_once:
            self.watch_all()
        return 0

    cdef inline int look_again(self) except -1:
        """Call `look` again if the class was changed."""
        cdef unsigned int version = version_of(self)
        if unlikely(version != self.version or version == 0):
            self.look()
        return 0

    @property
    def _thread_id(self):
        return self.thread

    @_thread_id.setter
    def _thread_id(self, thread):
        """Begin to run, in a thread, or end, with None."""
        self.thread = thread
        if thread is None:
            self.watch_all()
        elif HAS_GIL and not self.quiet:
            self.look_again()
            self.quiet = self.own_run_once
            if self.quiet:
                PyObject_GC_UnTrack(<PyObject *>self.timers)
                self.since = self.timers.wheel.sequence

    cdef int watch_all(self) except -1:
        """Give the timers back to the garbage collector. O(timers pending); O(1) if none was scheduled in this run."""
        cdef wheel_t *w = &self.timers.wheel
        cdef uint64_t since = self.since if self.since <= w.sequence else 0     # otherwise they were numbered anew
        cdef walk_t walk
        if not self.quiet:
            return 0
        self.quiet = False
        watch_again(<PyObject *>self.timers)
        if since < w.sequence:
            walk = live_nodes(&w.arena)
            while next_live(&walk):
                if walk.node.stamp >> GEN_BITS > since:
                    watch(<PyObject *><uintptr_t>walk.node.payload)
        for handle in list(self._ready):
            if Py_TYPE(<PyObject *>handle) == TIMER_HANDLE:
                watch(<PyObject *>handle)
        return 0

    @property
    def _selector(self):
        return self.selector

    @_selector.setter
    def _selector(self, selector):
        self.selector = selector
        self.epoll = selector.fileno() if type(selector) is epoll_selector else -1

    @property
    def _scheduled(self):
        """The handles of the pending timers by time, as a new list. O(n log n).

        Tools with turns of their own pop due timers from asyncio's heap. A timer that is popped from this list is taken
        off the wheel when the list is next asked for, or at the next turn.
        """
        cdef walk_t walk
        cdef list handles = []
        self.take_popped()
        with critical_section(self.timers):
            walk = live_nodes(&self.timers.wheel.arena)
            while next_live(&walk):
                handles.append(<object><PyObject *><uintptr_t>walk.node.payload)
        handles.sort(key=attrgetter("_when"))
        self.shown, self.pending = handles, tuple(handles)
        return handles

    cdef int take_popped(self) except -1:
        """Take the timers off the wheel that were popped from `_scheduled`."""
        shown, self.shown = self.shown, None
        pending, self.pending = self.pending, None
        if shown is not None and len(shown) < len(pending):
            left = set(map(id, shown))
            for handle in pending:
                if id(handle) not in left:
                    remove(self, <PyObject *>handle)
                    watch(<PyObject *>handle)
        return 0

    @_scheduled.setter
    def _scheduled(self, handles):
        if handles:                     # BaseEventLoop sets an empty list
            raise AttributeError("the timers of this loop are on a wheel: use call_at")

    def time(self):
        """Return the time in seconds by the loop's clock."""
        return monotonic() if self._clock is None else self._clock.time_ns() / 1e9

    cdef inline double now(self) except? -1:
        self.look_again()
        return self.present()

    cdef inline double present(self) except? -1:
        """The time, by the methods that the last look at the class found."""
        if self.own_time and self._clock is None:
            return monotonic()
        return PyFloat_AsDouble(self.time())

    def close(self):
        """Close the loop, and release pending timers."""
        super().close()
        self.shown = self.pending = None
        self.timers.clear()

    @property
    def _touched(self):
        """The number of timers that collecting has moved in the wheel so far, or out of it. For tests."""
        with critical_section(self.timers):
            return self.timers.wheel.touched

    def _check(self):
        """Recompute every invariant of the wheel slowly; RuntimeError names a broken one. For tests. O(n)."""
        self.timers._check()

    def _run_once(self):
        """Run one turn: wait for files and timers, then run the callbacks that are ready by then."""
        turn(self)


# ---- a turn: it waits for files and timers, and runs what is ready by then ------------------------------------------

cdef extern from *:
    """
    #if defined(__linux__)
      #include <sys/epoll.h>
      /* Whether nothing can be read or written. It does not wait, so the GIL is kept. */
      static CYTHON_INLINE int pywheel_is_quiet(int epoll) {
          struct epoll_event event;
          return epoll_wait(epoll, &event, 1, 0) == 0;
      }
    #else
      #define pywheel_is_quiet(epoll) 0
    #endif
    """
    bint is_quiet "pywheel_is_quiet"(int epoll)

cdef enum:
    CHUNK = 256                         # timers on their way from the wheel to the loop
    FEW = 16                            # timers that are checked one by one for the earliest
    QUOTA = 4096                        # timers that each step of a turn may move in the wheel, or collect

cdef double LONGEST_WAIT = base_events.MAXIMUM_SELECT_TIMEOUT
cdef double FOREVER = _LONGEST / 1e9    # seconds; no clock goes so far, so the timer counts as infinite
cdef object Handle = events.Handle
cdef object stock_run = events.Handle._run


cdef int turn(WheelScheduling self) except -1:
    """Run one turn: wait for files and timers, then run the callbacks that are ready by then."""
    ready = self._ready
    if self.shown is not None:
        self.take_popped()
    happened = poll(self, ready)
    if happened is not None:
        self._process_events(happened)
        happened = None                 # avoids a cycle if a callback raises
    take_due(self)
    popleft = ready.popleft
    cdef Py_ssize_t _i
    cdef bint as_ever = Handle._run is stock_run and not self._debug
    for _i in range(len(ready)):
        handle = popleft()
        if as_ever and (Py_TYPE(<PyObject *>handle) == TIMER_HANDLE or Py_TYPE(<PyObject *>handle) == HANDLE):
            run(<PyObject *>handle)
        else:
            if Py_TYPE(<PyObject *>handle) == TIMER_HANDLE:
                watch(<PyObject *>handle)
            if handle._cancelled:
                pass
            elif self._debug:
                run_slowly(self, handle)
            else:
                handle._run()
    handle = None
    return 0


cdef object poll(WheelScheduling self, ready):
    """Wait, and return the selector's events; None if there are none, and no wait was needed to see that."""
    if len(ready) or self._stopping:
        timeout = 0
    else:
        timeout = seconds_to_wait(self)
    if timeout == 0 and self.epoll >= 0 and is_quiet(self.epoll):
        return None
    return self._selector.select(timeout)


cdef object seconds_to_wait(WheelScheduling self):
    """The seconds to wait if no callback is ready; None without limit."""
    cdef double left = earliest(self) - self.now()
    if left > FOREVER:
        return None
    return 0 if left <= 0 else min(left, LONGEST_WAIT)


cdef double earliest(WheelScheduling self) noexcept:
    """The time of the next look: at or before the earliest `when`; infinity without timers. O(levels)."""
    cdef wheel_t *w = &self.timers.wheel
    cdef double found
    cdef uint32_t rest
    cdef uint64_t number
    cdef int l
    with critical_section(self.timers):
        if w.live == 0:
            return INFINITY
        if is_behind(w):
            return -INFINITY
        found, rest = self.early, w.in_use
        while next_occupied(w, &rest, &l, &number):
            found = min(found, earliest_of(self, l, number))
    return found


cdef double earliest_of(WheelScheduling self, int level, uint64_t number) noexcept:
    """The earliest `when` in an occupied slot; the start of the slot if it has more than a few timers."""
    cdef wheel_t *w = &self.timers.wheel
    cdef uint32_t slot = <uint32_t>number & SLOT_MASK, index
    cdef double found = INFINITY
    cdef int i
    if w.level[level].weight[slot] > FEW:
        return <double>(number << DIGIT_BITS * level) / TICKS_PER_SECOND
    for i in range(1 << w.list_bits):
        index = w.level[level].heads[(slot << w.list_bits) + i]
        while index:
            found = min(found, fields(<PyObject *><uintptr_t>w.arena.nodes[index].payload).due)
            index = w.arena.nodes[index].next
    return found


cdef int take_due(WheelScheduling self) except -1:
    """Move due timers from the wheel to `_ready`, at most `limit` of them. Finding them may take several turns."""
    cdef wheel_t *w = &self.timers.wheel
    cdef double now = self.now()
    cdef uint64_t left = self.limit, room, n, too_soon = 0
    cdef bint stay
    cdef list due
    with critical_section(self.timers):
        stay = must_wait(w, left)       # timers whose time has come stay where they are
        if wheel_advance_some(w, max(tick_of(now), w.now), left, QUOTA):
            stay = True                 # without memory it goes on next turn
        if not stay:
            self.early = INFINITY
    while left and too_soon < QUOTA:
        with critical_section(self.timers):
            room = min(min(left, w.ready_live), <uint64_t>CHUNK)
        if room == 0:
            break
        due = PyList_New(room)          # before any timer is taken off the wheel: without memory, nothing is lost
        n = take(self, due, room, now)
        left -= n
        too_soon += room - n
        hand_over(self, due)
    return 0


cdef uint64_t take(WheelScheduling self, list due, uint64_t room, double now):
    """Take up to `room` collected timers off the wheel, put the due ones into `due`, and return their number."""
    cdef uint64_t[CHUNK] chunk
    cdef uint64_t got, i, n = 0
    cdef PyObject *handle
    with critical_section(self.timers):
        got = wheel_pop(&self.timers.wheel, chunk, room)
    for i in range(got):
        handle = <PyObject *><uintptr_t>chunk[i]
        if fields(handle).due <= now or put(self, handle):
            Py_XDECREF(replace(handle, SCHEDULED, Py_False))
            PyList_SET_ITEM(due, n, handle)     # with the wheel's reference
            n += 1
        else:
            Py_DECREF(handle)
    Py_SET_SIZE(due, n)
    return n


cdef int hand_over(WheelScheduling self, list due) except -1:
    """Put timers into `_ready`; without memory, back on the wheel."""
    cdef Py_ssize_t i, before = len(self._ready)
    try:
        self._ready.extend(due)
    except BaseException:
        for i in range(len(self._ready) - before, len(due)):
            handle = due[i]
            put(self, <PyObject *>handle)
        raise
    return 0


cdef int run_slowly(WheelScheduling self, handle) except -1:
    """Run a handle in debug mode, and log it if it takes long."""
    try:
        self._current_handle = handle
        start = self.time()
        handle._run()
        took = self.time() - start
        if took >= self.slow_callback_duration:
            base_events.logger.warning("Executing %s took %.3f seconds", base_events._format_handle(handle), took)
    finally:
        self._current_handle = None
    return 0


# ---- how a handle is run, and what happens to what its callback raises ----------------------------------------------

cdef extern from *:
    """
    #define pywheel_items(tuple) (((PyTupleObject *)(tuple))->ob_item)
    """
    PyObject **items_of "pywheel_items"(PyObject *tuple)


cdef inline bint is_plain(PyObject *handle) noexcept:
    """Whether the handle is to be run, and its slots have everything that Handle._run expects."""
    cdef PyObject *context = at(handle, CONTEXT)[0]
    cdef PyObject *args = at(handle, ARGS)[0]
    return (at(handle, CANCELLED)[0] == Py_False and at(handle, CALLBACK)[0] != NULL
            and args != NULL and PyTuple_CheckExact(args) and context != NULL and PyContext_CheckExact(context))


cdef int run(PyObject *handle) except -1:
    """Do the same as Handle._run, unless the handle is cancelled."""
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
        watch(handle)                   # other references exist, or the exception handler may keep it
    if unlikely(result == NULL):
        return failed(<object>handle)
    Py_DECREF(result)
    return 0


cdef int failed(object handle) except -1:
    """Handle a callback's exception as Handle._run does."""
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


# ---- call_soon, call_later and call_at ------------------------------------------------------------------------------

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
    b"Raises:\n    TypeError: when is not a number.\n    ValueError: it is NaN.\n"
    b"    OverflowError: it is too large for a float.\n    RuntimeError: the loop is closed.\n\n"
    b"O(1)."))


# ---- what timeouts ask of the loop; see _loop.pxd -------------------------------------------------------------------

cdef bint is_plain_wheel(object loop) except -1:
    """Whether `call_at` may put a timer on its wheel: the loop is open, not in debug mode, and overrides nothing."""
    cdef WheelScheduling ours
    if not isinstance(loop, WheelScheduling):
        return False
    ours = <WheelScheduling>loop
    ours.look_again()
    return ours.own_call_at and not (ours._closed or ours._debug)


cdef double wheel_time(object loop) except? -1:
    return (<WheelScheduling>loop).present()


cdef object wheel_timer(object loop, object when, double due, object callback, tuple args):
    """Do the same as `call_at`, on a plain wheel."""
    return add(<WheelScheduling>loop, when, due, callback, args, NULL)


cdef int cancel_timer(object handle) except -1:
    """Cancel the handle of any loop."""
    if Py_TYPE(<PyObject *>handle) == TIMER_HANDLE:
        cancel(<PyObject *>handle, NULL)
    else:
        handle.cancel()
    return 0
