"""The native half of `EventLoop`: the handles, the scheduling and the turns of an asyncio loop, on a TimingWheel."""

# Handles.
# asyncio's handles are Python classes with slots. Here they are made without running `__init__`: the slots are filled
# where their descriptors say they lie. A TimerHandle is asyncio's with two fields behind the slots and a native
# `cancel`. While it is pending it is the item of its node: the wheel owns a reference to it. Its `_when` becomes an
# object when somebody asks for it.
#
# The garbage collector.
# While a loop runs, its wheel, the timers on it, and the contexts and arguments that were made for them cannot be
# garbage: so the collector does not track them, and a million of them cost a collection nothing. Not to be tracked is
# to be taken for reachable from elsewhere, so every way out gives a handle back to it: that it was cancelled, or was
# run and somebody still holds it, that the loop stops, that other code runs its turns. Without a GIL all are tracked.
#
# Time.
# A tick is 2**-20 s: floats of seconds become ticks and back without rounding. But ticks only say where in the wheel a
# timer stands. What decides is `when <= time()`, in the loop's own floats: a timer of the present tick whose time has
# not come goes back to the wheel, and `early` is the earliest of those. So nothing runs early, whatever the clock and
# its resolution, and nothing waits for the next tick on a clock that stands still, as those of tests do.
#
# Threads.
# A loop belongs to one thread, here as in asyncio. Handles are changed under their lock, and the wheel under its own,
# so that a misuse from other threads does to a free-threaded Python what it does under the GIL: no harm to memory.

cimport cython

import selectors
import sys
from asyncio import base_events, events, format_helpers
from inspect import signature
from operator import attrgetter
from types import MemberDescriptorType

from cpython.object cimport PyObject
from cpython.time cimport monotonic as monotonic_of_python
from cython cimport critical_section
from libc.math cimport INFINITY, isnan, nextafter
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t

from pywheel.core._wheel cimport TimingWheel
from pywheel.core.advance cimport is_behind, next_occupied, wheel_advance_some, wheel_pop
from pywheel.core.arena cimport GEN_BITS, arena_find, live_nodes, next_live, walk_t
from pywheel.core.bits cimport DIGIT_BITS, SLOT_MASK, unlikely
from pywheel.core.levels cimport wheel_t
from pywheel.core.schedule cimport wheel_remove, wheel_schedule
from pywheel.timers.clock cimport HAS_CLOCK, NANO, monotonic_ns

cdef extern from *:
    """
    #include "structmember.h"
    #define pywheel_offset(descriptor) (((PyMemberDescrObject *)(descriptor))->d_member->offset)

    /* A chain of handles, each held by the callback of the next, is released without as deep a stack. */
    static destructor pywheel_release;
    static void pywheel_dealloc(PyObject *self) {
        PyObject_GC_UnTrack(self);
        Py_TRASHCAN_BEGIN(self, pywheel_dealloc)
        pywheel_release(self);
        Py_TRASHCAN_END
    }

    /* Cython cannot derive from a class written in Python: a type of asyncio's, with room behind its slots. */
    static PyObject *pywheel_derive(const char *name, PyObject *bases, size_t size, void *cancel, void *traverse,
                                    void *clear, void *dealloc, void *get_when, void *set_when,
                                    void *get_context, void *set_context) {
        static PyMethodDef methods[] = {
            {"cancel", NULL, METH_NOARGS, "cancel($self, /)\\n--\\n\\n"
             "Take the timer out of the loop, and release callback and arguments before returning. O(1)."},
            {NULL, NULL, 0, NULL}};
        static PyGetSetDef attributes[] = {
            {"_when", NULL, NULL, NULL, NULL}, {"_context", NULL, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
        PyType_Slot slots[] = {
            {Py_tp_doc, "The asyncio.TimerHandle of a timer on the wheel."}, {Py_tp_methods, methods},
            {Py_tp_getset, attributes},
            {Py_tp_traverse, traverse}, {Py_tp_clear, clear}, {Py_tp_dealloc, (void *)pywheel_dealloc}, {0, NULL}};
        PyType_Spec spec = {name, (int)size, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
        pywheel_release = (destructor)dealloc;
        methods[0].ml_meth = (PyCFunction)cancel;
        attributes[0].get = (getter)get_when;
        attributes[0].set = (setter)set_when;
        attributes[1].get = (getter)get_context;
        attributes[1].set = (setter)set_context;
        return PyType_FromSpecWithBases(&spec, bases);
    }

    #ifdef Py_GIL_DISABLED
      #define PYWHEEL_HAS_GIL 0
    #else
      #define PYWHEEL_HAS_GIL 1
    #endif

    static PyObject *pywheel_allocate(PyTypeObject *type) {
        PyObject *made = PyObject_GC_New(PyObject, type);
        if (made != NULL)
            memset((char *)made + sizeof(PyObject), 0, type->tp_basicsize - sizeof(PyObject));
        return made;
    }

    #define pywheel_items(tuple) (((PyTupleObject *)(tuple))->ob_item)

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

    /* Python gives a class another version when it or a base of it is changed; 0 says that it has none yet. */
    #ifdef Py_GIL_DISABLED
      #define pywheel_version(self) _Py_atomic_load_uint_relaxed(&Py_TYPE(self)->tp_version_tag)
    #else
      #define pywheel_version(self) (Py_TYPE(self)->tp_version_tag)
    #endif

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
    Py_ssize_t offset_of "pywheel_offset"(object descriptor)
    const bint HAS_GIL "PYWHEEL_HAS_GIL"
    PyObject *allocate "pywheel_allocate"(PyTypeObject *type) except NULL
    object derive "pywheel_derive"(const char *name, tuple bases, size_t size, void *cancel, void *traverse,
                                   void *clear, void *dealloc, void *get_when, void *set_when,
                                   void *get_context, void *set_context)
    PyObject **items_of "pywheel_items"(PyObject *tuple)
    int add_method "pywheel_add_method"(object type, int i, const char *name, void *function, const char *doc) except -1
    bint is_quiet "pywheel_is_quiet"(int epoll)
    unsigned int version_of "pywheel_version"(object self)

cdef extern from "Python.h":
    ctypedef int (*visitproc)(PyObject *, void *) noexcept
    ctypedef struct PyTypeObject:
        PyTypeObject *tp_base
        Py_ssize_t tp_weaklistoffset
    PyObject *Py_False
    PyObject *Py_None
    PyObject *Py_True
    PyObject *PyContext_CopyCurrent() except NULL
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
    void _Py_NewReference(PyObject *value)
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

cdef enum:
    CHUNK = 256                         # timers on their way from the wheel to the loop
    FEW = 16                            # timers that are looked at one by one for the earliest
    POOL = 1024                         # handles kept for the next timers
    QUOTA = 4096                        # timers that one turn may move down a level of the wheel
    TICKS_PER_SECOND = 1 << 20

cdef tuple OVERRIDABLE = ("time", "call_at", "_call_soon", "_run_once")
cdef double LAST = 2.0 ** 42            # seconds; every later deadline, infinity too, stands on this tick
cdef double LONGEST_WAIT = base_events.MAXIMUM_SELECT_TIMEOUT


# ---- handles --------------------------------------------------------------------------------------------------------

ctypedef struct fields_t:               # of a TimerHandle, behind the slots
    uint64_t timer                      # the wheel's handle
    double due                          # when, as a float that is not less


cdef Py_ssize_t slot(type owner, str name) except -1:
    """Where a slot lies in the instances of a class."""
    descriptor = vars(owner).get(name)
    if type(descriptor) is not MemberDescriptorType:
        raise ImportError(f"asyncio's {owner.__name__} has no slot {name} in this Python: set PYWHEEL_PURE=1")
    return offset_of(descriptor)


if len(events.Handle.__slots__) + len(events.TimerHandle.__slots__) > 16:
    raise ImportError
cdef list _names = [name for name in (*events.Handle.__slots__, *events.TimerHandle.__slots__) if name != "__weakref__"]
cdef Py_ssize_t[16] slots
cdef int slot_count = len(_names), _i
for _i in range(slot_count):
    slots[_i] = slot(events.TimerHandle if _names[_i] in events.TimerHandle.__slots__ else events.Handle, _names[_i])

cdef Py_ssize_t CALLBACK = slot(events.Handle, "_callback")
cdef Py_ssize_t ARGS = slot(events.Handle, "_args")
cdef Py_ssize_t CANCELLED = slot(events.Handle, "_cancelled")
cdef Py_ssize_t CONTEXT = slot(events.Handle, "_context")
cdef Py_ssize_t LOOP = slot(events.Handle, "_loop")
cdef Py_ssize_t REPR = slot(events.Handle, "_repr")
cdef Py_ssize_t TRACEBACK = slot(events.Handle, "_source_traceback")
cdef Py_ssize_t SCHEDULED = slot(events.TimerHandle, "_scheduled")
cdef Py_ssize_t WHEN = slot(events.TimerHandle, "_when")
cdef Py_ssize_t FIELDS = events.TimerHandle.__basicsize__

# Handles that nobody has, to be made timers of again: False and None where a new handle has them, the rest is empty.
cdef PyObject *pool[POOL]
cdef int pooled = 0


cdef inline PyObject **at(PyObject *handle, Py_ssize_t offset) noexcept:
    return <PyObject **>(<char *>handle + offset)


cdef inline fields_t *fields(PyObject *handle) noexcept:
    return <fields_t *>(<char *>handle + FIELDS)


cdef inline void fill(PyObject *handle, Py_ssize_t offset, PyObject *value) noexcept:
    """Put a value into a slot that is empty."""
    Py_INCREF(value)
    at(handle, offset)[0] = value


cdef inline PyObject *replace(PyObject *handle, Py_ssize_t offset, PyObject *value) noexcept:
    """Put a value into a slot; return what was there, which is the caller's now, or NULL."""
    cdef PyObject *old = at(handle, offset)[0]
    fill(handle, offset, value)
    return old


cdef object new_handle(WheelScheduling loop, object callback, tuple args, PyObject *context):
    """What `Handle.__init__` makes of these, but for the debug mode."""
    cdef object made = PyType_GenericAlloc(HANDLE, 0)
    cdef PyObject *handle = <PyObject *>made
    at(handle, CONTEXT)[0] = PyContext_CopyCurrent() if context == NULL else Py_NewRef(context)
    fill_constants(handle)
    fill(handle, LOOP, <PyObject *>loop)
    fill(handle, CALLBACK, <PyObject *>callback)
    fill(handle, ARGS, <PyObject *>args)
    return made


cdef inline void fill_constants(PyObject *handle) noexcept:
    fill(handle, CANCELLED, Py_False)
    fill(handle, REPR, Py_None)
    fill(handle, TRACEBACK, Py_None)


cdef inline PyObject *bare_timer() except NULL:
    """A TimerHandle that the collector does not know of, without callback, arguments, context, loop and time."""
    global pooled
    cdef PyObject *handle
    if HAS_GIL and pooled:
        pooled -= 1
        handle = pool[pooled]
        _Py_NewReference(handle)
        return handle
    handle = allocate(TIMER_HANDLE)
    fill_constants(handle)
    fill(handle, SCHEDULED, Py_False)
    return handle


cdef inline bint keep(PyObject *handle) noexcept:
    """Put a handle that is as `bare_timer` wants it into the pool; False if that is full."""
    global pooled
    if not HAS_GIL or pooled == POOL:
        return False
    pool[pooled] = handle
    pooled += 1
    return True


cdef object cancel(PyObject *handle, PyObject *unused):
    """TimerHandle.cancel: out of the wheel first, then the rest as asyncio does it."""
    cdef PyObject *callback = NULL
    cdef PyObject *args = NULL
    cdef object loop
    if at(handle, CANCELLED)[0] == Py_True:
        return None
    with critical_section(<object>handle):
        loop = <object>at(handle, LOOP)[0] if at(handle, LOOP)[0] != NULL else None
    if not is_loop(loop) or (<WheelScheduling>loop)._debug:
        return cancel_slowly(<object>handle)
    (<WheelScheduling>loop).remove(handle)
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
    """TimerHandle.cancel in debug mode, and of a handle whose loop is no longer the one it was made by."""
    if isinstance(handle._loop, WheelScheduling):
        (<WheelScheduling>handle._loop).remove(<PyObject *>handle)
        watch(<PyObject *>handle)
    stock_cancel(handle)


cdef inline bint is_loop(object value):
    """isinstance(value, WheelScheduling), most often at once."""
    return Py_TYPE(<PyObject *>value).tp_base == <PyTypeObject *>WheelScheduling or isinstance(value, WheelScheduling)


cdef inline void watch_again(PyObject *value) noexcept:
    if HAS_GIL and not PyObject_GC_IsTracked(value):
        PyObject_GC_Track(value)


cdef inline void watch_args(PyObject *args) noexcept:
    if PyTuple_CheckExact(args) and PyTuple_GET_SIZE(args):
        watch_again(args)


cdef inline void watch_context(PyObject *context) noexcept:
    if PyContext_CheckExact(context):
        watch_again(context)


cdef void watch(PyObject *handle) noexcept:
    """Give a timer back to the garbage collector, with what was made for it."""
    if not HAS_GIL or PyObject_GC_IsTracked(handle):
        return
    if at(handle, ARGS)[0] != NULL:
        watch_args(at(handle, ARGS)[0])
    if at(handle, CONTEXT)[0] != NULL:
        watch_context(at(handle, CONTEXT)[0])
    PyObject_GC_Track(handle)


cdef inline void release_args(PyObject *args) noexcept:
    """Drop the arguments of a timer, or NULL."""
    if args != NULL:
        if Py_REFCNT(args) > 1:         # somebody has taken them
            watch_args(args)
        Py_DECREF(args)


cdef inline void release_context(PyObject *context) noexcept:
    """Drop the context of a timer, or NULL; contexts expect to be known to the collector in the end."""
    if context != NULL:
        watch_context(context)
        Py_DECREF(context)


cdef int traverse(PyObject *handle, visitproc visit, void *arg) noexcept:
    cdef int i, stop = visit(<PyObject *>Py_TYPE(handle), arg)
    for i in range(slot_count):
        if stop:
            break
        if at(handle, slots[i])[0] != NULL:
            stop = visit(at(handle, slots[i])[0], arg)
    return stop


cdef int clear(PyObject *handle) noexcept:
    cdef int i
    cdef PyObject *old
    for i in range(slot_count):
        old = at(handle, slots[i])[0]
        at(handle, slots[i])[0] = NULL
        Py_XDECREF(old)
    return 0


cdef void dealloc(PyObject *handle) noexcept:
    """Release a handle that is not tracked any more."""
    cdef PyObject *type
    if not HAS_GIL or at(handle, WEAKREFS)[0] != NULL:
        PyObject_ClearWeakRefs(handle)
    empty(handle)
    if keep(handle):
        return
    clear(handle)
    type = <PyObject *>Py_TYPE(handle)
    PyObject_GC_Del(handle)
    Py_DECREF(type)


cdef inline PyObject *taken(PyObject *handle, Py_ssize_t offset) noexcept:
    """What a slot held, which is the caller's now, or NULL."""
    cdef PyObject *old = at(handle, offset)[0]
    at(handle, offset)[0] = NULL
    return old


cdef inline void restore(PyObject *handle, Py_ssize_t offset, PyObject *value) noexcept:
    if unlikely(at(handle, offset)[0] != value):
        Py_XDECREF(replace(handle, offset, value))


cdef inline void empty(PyObject *handle) noexcept:
    """Make a handle what `bare_timer` gives."""
    release_context(taken(handle, CONTEXT))
    Py_XDECREF(taken(handle, CALLBACK))
    release_args(taken(handle, ARGS))
    Py_XDECREF(taken(handle, LOOP))
    Py_XDECREF(taken(handle, WHEN))
    restore(handle, CANCELLED, Py_False)
    restore(handle, SCHEDULED, Py_False)
    restore(handle, REPR, Py_None)
    restore(handle, TRACEBACK, Py_None)


cdef PyObject *get_when(PyObject *handle, void *unused) except NULL:
    """`_when`, which is made of `due` unless `call_at` was given another object."""
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
    with critical_section(<object>handle):
        if at(handle, CONTEXT)[0] != NULL:
            context = Py_NewRef(at(handle, CONTEXT)[0])
    if context == NULL:
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
                     <void *>cancel, <void *>traverse, <void *>clear, <void *>dealloc, <void *>get_when,
                     <void *>set_when, <void *>get_context, <void *>set_context)
cdef PyTypeObject *TIMER_HANDLE = <PyTypeObject *>TimerHandle
cdef Py_ssize_t WEAKREFS = TIMER_HANDLE.tp_weaklistoffset
cdef PyTypeObject *HANDLE = <PyTypeObject *>events.Handle

cdef object stock_cancel = events.TimerHandle.cancel
cdef object stock_run = events.Handle._run


# ---- time -----------------------------------------------------------------------------------------------------------

cdef inline double monotonic() except? -1:
    """time.monotonic(), to the last bit."""
    cdef int64_t ns = monotonic_ns() if HAS_CLOCK else -1
    if unlikely(ns < 0):
        return monotonic_of_python()
    return <double>(ns // NANO) if unlikely(ns % NANO == 0) else <double>ns / 1e9


cdef inline uint64_t tick_of(double seconds) noexcept:
    if not seconds > 0:
        return 0
    return <uint64_t>((seconds if seconds < LAST else LAST) * TICKS_PER_SECOND)


cdef inline double as_due(object when) except? -1:
    """`when` as a float that is not less than it."""
    cdef double due = PyFloat_AS_DOUBLE(when) if PyFloat_CheckExact(when) else other_due(when)
    if unlikely(isnan(due)):
        raise not_a_number()
    return due


cdef inline double check(double due) except? -1:
    """A `when` that was computed."""
    if unlikely(isnan(due)):
        raise not_a_number()
    return due


cdef object not_a_number():
    return ValueError("the time of a call must not be NaN")


cdef double other_due(object when) except? -1:
    if when is None:
        raise TypeError("when cannot be None")
    cdef double due = PyFloat_AsDouble(when)
    return nextafter(due, INFINITY) if not isnan(due) and due < when else due


# ---- the loop -------------------------------------------------------------------------------------------------------

@cython.no_gc_clear                     # a loop that is being collected may still be asked to cancel or to close
cdef class WheelScheduling:
    """Asyncio's scheduling on a timing wheel: to be put before BaseEventLoop or a loop derived from it.

    Args:
        clock: where `time` comes from, a Clock; None for the system's monotonic clock.
        limit: how many timers at most a turn of the loop runs.

    All other arguments go to the next class.

    Raises:
        ValueError: limit is less than 1.
    """
    cdef TimingWheel timers
    cdef double early                   # the earliest `when` on a tick that the wheel has reached; infinity if none
    cdef uint64_t limit
    cdef readonly object _clock
    cdef unsigned int version           # of its class, when that was looked at last
    cdef bint own_time                  # nobody has overridden `time`,
    cdef bint own_call_at               # `call_at`,
    cdef bint own_call_soon             # `_call_soon`,
    cdef bint own_run_once              # or `_run_once`
    cdef object thread                  # in which it runs, or None
    cdef bint quiet                     # the garbage collector need not know of its timers,
    cdef uint64_t since                 # of those scheduled after this sequence number
    cdef object selector
    cdef int epoll                      # file descriptor, or -1 if the selector is another one
    cdef list shown                     # the last `_scheduled`, until the next turn,
    cdef tuple pending                  # and what was in it
    cdef public object _ready           # asyncio's own attributes, which it reads and writes by these names
    cdef public bint _closed
    cdef public bint _debug
    cdef public bint _stopping

    def __cinit__(self, *args, **kwargs):
        self.timers = TimingWheel()
        self.early = INFINITY
        self.epoll = -1
        self._closed = True             # until it has something to close

    def __init__(self, *args, clock=None, limit=1_000, **kwargs):
        if limit < 1:
            raise ValueError("limit must be 1 or more")
        self._clock = clock
        self.limit = limit
        self.look()
        if self.own_time:
            self.timers = TimingWheel(tick_of(self.now()))      # or the first turn would have to move all timers down
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
        """See what a subclass has overridden, or somebody has replaced in this loop."""
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
        """Look again if the class was changed."""
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
        cdef uint64_t since = self.since if self.since <= w.sequence else 0     # or they were numbered anew
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

        Tools with turns of their own pop what is due from asyncio's heap. What is popped from the list is taken off the
        wheel when the list is next asked for, or at the next turn.
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
        """Take off the wheel what somebody has popped from `_scheduled`."""
        shown, self.shown = self.shown, None
        pending, self.pending = self.pending, None
        if shown is not None and len(shown) < len(pending):
            left = set(map(id, shown))
            for handle in pending:
                if id(handle) not in left:
                    self.remove(<PyObject *>handle)
                    watch(<PyObject *>handle)
        return 0

    @_scheduled.setter
    def _scheduled(self, handles):
        if handles:                     # BaseEventLoop begins with none
            raise AttributeError("the timers of this loop are on a wheel: use call_at")

    def time(self):
        """Return the time in seconds by the loop's clock."""
        return monotonic() if self._clock is None else self._clock.time_ns() / 1e9

    cdef inline double now(self) except? -1:
        self.look_again()
        return self.present()

    cdef inline double present(self) except? -1:
        """The time, by what was found when the class was looked at."""
        if self.own_time and self._clock is None:
            return monotonic()
        return PyFloat_AsDouble(self.time())

    def close(self):
        """Close the loop; timers that are pending are released."""
        super().close()
        self.shown = self.pending = None
        self.timers.clear()

    # ---- timers

    cdef object add(self, object when, double due, object callback, tuple args, PyObject *context):
        """Make the handle of a timer, and put it on the wheel. `when` is None if that is `due`.

        If `args` are not empty, nobody else has them.
        """
        cdef PyObject *handle = bare_timer()
        cdef object made = <object>handle
        cdef bint quiet = HAS_GIL and self.quiet
        Py_DECREF(handle)
        if context != NULL:
            fill(handle, CONTEXT, context)
        else:
            context = at(handle, CONTEXT)[0] = PyContext_CopyCurrent()
            if quiet:
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
        if self.place(handle):
            raise MemoryError
        return made

    cdef int place(self, PyObject *handle) noexcept:
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

    cdef void remove(self, PyObject *handle) noexcept:
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

    cdef int collect(self) except -1:
        """Move what is due from the wheel to `_ready`, at most `limit` timers."""
        cdef wheel_t *w = &self.timers.wheel
        cdef double now = self.now()
        cdef uint64_t left = self.limit, room
        cdef list due
        with critical_section(self.timers):
            self.early = INFINITY
            wheel_advance_some(w, max(tick_of(now), w.now), left, QUOTA)    # without memory it goes on next turn
        while left:
            with critical_section(self.timers):
                room = min(min(left, w.ready_live), <uint64_t>CHUNK)
            if room == 0:
                break
            due = PyList_New(room)      # before any is taken off the wheel: without memory, nothing is lost
            left -= self.take(due, room, now)
            self.hand_over(due)
        return 0

    cdef uint64_t take(self, list due, uint64_t room, double now):
        """Take up to so many collected timers off the wheel, put into `due` those that are, and return how many."""
        cdef uint64_t[CHUNK] chunk
        cdef uint64_t got, i, n = 0
        cdef PyObject *handle
        with critical_section(self.timers):
            got = wheel_pop(&self.timers.wheel, chunk, room)
        for i in range(got):
            handle = <PyObject *><uintptr_t>chunk[i]
            if fields(handle).due <= now or self.place(handle):
                Py_XDECREF(replace(handle, SCHEDULED, Py_False))
                PyList_SET_ITEM(due, n, handle)     # with the wheel's reference
                n += 1
            else:
                Py_DECREF(handle)
        Py_SET_SIZE(due, n)
        return n

    cdef int hand_over(self, list due) except -1:
        """Put timers into `_ready`; without memory, back on the wheel."""
        cdef Py_ssize_t i, before = len(self._ready)
        try:
            self._ready.extend(due)
        except BaseException:
            for i in range(len(self._ready) - before, len(due)):
                handle = due[i]
                self.place(<PyObject *>handle)
            raise
        return 0

    cdef double earliest(self) noexcept:
        """The time to look again: at or before the earliest `when`; infinity without timers. O(levels)."""
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
                found = min(found, self.earliest_of(l, number))
        return found

    cdef double earliest_of(self, int level, uint64_t number) noexcept:
        """The earliest `when` in an occupied slot, or, of more than a few, the time at which it begins."""
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

    # ---- a turn

    def _run_once(self):
        """Run one turn: wait for files and timers, then run what is ready by then."""
        ready = self._ready
        if self.shown is not None:
            self.take_popped()
        happened = self.poll(ready)
        if happened is not None:
            self._process_events(happened)
            happened = None             # or a cycle, if a callback raises
        self.collect()
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
                    self.run_slowly(handle)
                else:
                    handle._run()
        handle = None

    cdef object poll(self, ready):
        """Wait, and return the selector's events; None if there are none, and that took no wait to see."""
        if len(ready) or self._stopping:
            timeout = 0
        else:
            timeout = self.timeout()
        if timeout == 0 and self.epoll >= 0 and is_quiet(self.epoll):
            return None
        return self._selector.select(timeout)

    cdef object timeout(self):
        """How many seconds to wait if nothing is ready; None for ever."""
        cdef double when = self.earliest()
        if when == INFINITY:
            return None
        when -= self.now()
        return 0 if when <= 0 else min(when, LONGEST_WAIT)

    cdef int run_slowly(self, handle) except -1:
        """Run a handle in debug mode, and say so if it takes long."""
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


cdef object Handle = events.Handle
cdef object epoll_selector = getattr(selectors, "EpollSelector", None)


# ---- running a handle -----------------------------------------------------------------------------------------------

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
    cdef bint plain
    with critical_section(<object>handle):
        plain = is_plain(handle)
        if plain:
            context = <object>at(handle, CONTEXT)[0]
            callback = <object>at(handle, CALLBACK)[0]
            args = <object>at(handle, ARGS)[0]
    if not plain:
        if Py_TYPE(handle) == TIMER_HANDLE:
            watch(handle)
        if not (<object>handle)._cancelled:
            (<object>handle)._run()
        return 0
    if PyContext_Enter(context) == 0:
        result = PyObject_Vectorcall(callback, items_of(<PyObject *>args), PyTuple_GET_SIZE(<PyObject *>args), NULL)
        if PyContext_Exit(context) < 0:
            Py_CLEAR(result)
    if Py_REFCNT(handle) > 1 and Py_TYPE(handle) == TIMER_HANDLE:
        watch(handle)
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


# ---- call_soon, call_later, call_at: each with `callback, *args, context=None`, called as fast as can be ------------
# What is usual is taken from C's array of arguments; the rest goes through a function with the signature in full.

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
    return loop.add(None, check(due), <object>args[1], as_tuple(args + 2, count - 2), context_of(args, count, names))


def _call_later(self, delay, callback, *args, context=None):
    if delay is None:
        raise TypeError("delay must not be None")
    return self.call_at(self.time() + delay, callback, *args, context=context)


cdef object call_at(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names):
    cdef WheelScheduling loop = <WheelScheduling>self
    if not is_usual(count, 2, names) or loop._closed or loop._debug:
        return in_full(_call_at, self, args, count, names)
    return loop.add(<object>args[0], as_due(<object>args[0]), <object>args[1], as_tuple(args + 2, count - 2),
                    context_of(args, count, names))


def _call_at(self, when, callback, *args, context=None):
    cdef WheelScheduling loop = self
    cdef double due = as_due(when)
    loop._check_closed()
    if loop._debug:
        loop._check_thread()
        loop._check_callback(callback, "call_at")
    return loop.add(when, due, callback, args, NULL if context is None else <PyObject *>context)


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


# ---- for timeouts, which have a module of their own -----------------------------------------------------------------

cdef bint is_plain_wheel(object loop) except -1:
    """Whether a timer may be put on its wheel as `call_at` does: it is open, nothing is overridden or debugged."""
    cdef WheelScheduling ours
    if not isinstance(loop, WheelScheduling):
        return False
    ours = <WheelScheduling>loop
    ours.look_again()
    return ours.own_call_at and not (ours._closed or ours._debug)


cdef double wheel_time(object loop) except? -1:
    return (<WheelScheduling>loop).present()


cdef object wheel_timer(object loop, object when, double due, object callback, tuple args):
    """What `call_at` does, on a plain wheel."""
    return (<WheelScheduling>loop).add(when, due, callback, args, NULL)


cdef int cancel_timer(object handle) except -1:
    """Cancel the handle of any loop."""
    if Py_TYPE(<PyObject *>handle) == TIMER_HANDLE:
        cancel(<PyObject *>handle, NULL)
    else:
        handle.cancel()
    return 0
