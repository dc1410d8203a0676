# TimerHandles without their loop: making them, hiding them from the garbage collector, and releasing them.
#
# While a loop runs, its wheel, the timers on it, and the contexts and arguments that were made for them cannot be
# garbage. So the collector does not track them, and a million of them add nothing to a collection. The collector takes
# an untracked object for one that is reachable from elsewhere. So every way out makes a handle tracked again: it was
# cancelled, or was run and has other references, or the loop stops, or other code runs its turns. Without a GIL all
# handles are tracked.

from cpython.object cimport PyObject

from pywheel.core.bits cimport HAS_GIL
from pywheel.timers.contexts cimport PyTypeObject, Py_DECREF, Py_TYPE
from pywheel.timers.slots cimport (ARGS, CALLBACK, CANCELLED, CONTEXT, HANDLE_SLOTS, LOOP, Py_XDECREF, REPR, SCHEDULED,
                                   TRACEBACK, WEAKREFS, WHEN, at, fill, restore, slots, taken)

cdef extern from *:
    """
    /* Unused handles, to be made timers again: False and None where a new handle has them, and the rest empty. */
    enum {PYWHEEL_POOL = 1024};
    typedef struct {
        PyObject *handles[PYWHEEL_POOL];
        int count;
    } pywheel_pool_t;
    static pywheel_pool_t pywheel_pool;
    static PyTypeObject *pywheel_timer_handle;

    static PyObject *pywheel_allocate(PyTypeObject *type) {
        PyObject *made = PyObject_GC_New(PyObject, type);
        if (made != NULL)
            memset((char *)made + sizeof(PyObject), 0, type->tp_basicsize - sizeof(PyObject));
        return made;
    }
    """
    ctypedef struct pool_t "pywheel_pool_t":
        PyObject **handles
        int count
    pool_t pool "pywheel_pool"
    const int POOL "PYWHEEL_POOL"
    PyTypeObject *TIMER_HANDLE "pywheel_timer_handle"
    PyObject *allocate "pywheel_allocate"(PyTypeObject *type) except NULL

cdef extern from "Python.h":
    ctypedef int (*visitproc)(PyObject *, void *) noexcept
    PyObject *Py_False
    PyObject *Py_None
    bint PyContext_CheckExact(PyObject *value)
    void PyObject_ClearWeakRefs(PyObject *value)
    void PyObject_GC_Del(PyObject *value)
    bint PyObject_GC_IsTracked(PyObject *value)
    void PyObject_GC_Track(PyObject *value)
    void PyObject_GC_UnTrack(PyObject *value)
    Py_ssize_t Py_REFCNT(PyObject *value)
    bint PyTuple_CheckExact(PyObject *value)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *items)
    void _Py_NewReference(PyObject *value)


cdef inline void watch_again(PyObject *value) noexcept:
    if HAS_GIL and not PyObject_GC_IsTracked(value):
        PyObject_GC_Track(value)


cdef inline void watch_args(PyObject *args) noexcept:
    if PyTuple_CheckExact(args) and PyTuple_GET_SIZE(args):
        watch_again(args)


cdef inline void watch_context(PyObject *context) noexcept:
    if PyContext_CheckExact(context):
        watch_again(context)


cdef inline void watch(PyObject *handle) noexcept:
    """Make a timer, and the objects made for it, known to the garbage collector again."""
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
        if Py_REFCNT(args) > 1:         # other references exist
            watch_args(args)
        Py_DECREF(args)


cdef inline void release_context(PyObject *context) noexcept:
    """Drop the context of a timer, or NULL; contexts expect the collector to know them in the end."""
    if context != NULL:
        watch_context(context)
        Py_DECREF(context)


cdef inline int traverse_slots(PyObject *handle, visitproc visit, void *arg) noexcept:
    cdef int i, stop = visit(<PyObject *>Py_TYPE(handle), arg)
    for i in range(HANDLE_SLOTS):
        if stop:
            break
        if at(handle, slots[i])[0] != NULL:
            stop = visit(at(handle, slots[i])[0], arg)
    return stop


cdef inline int clear_slots(PyObject *handle) noexcept:
    cdef int i
    cdef PyObject *old
    for i in range(HANDLE_SLOTS):
        old = at(handle, slots[i])[0]
        at(handle, slots[i])[0] = NULL
        Py_XDECREF(old)
    return 0


cdef inline void fill_constants(PyObject *handle) noexcept:
    fill(handle, CANCELLED, Py_False)
    fill(handle, REPR, Py_None)
    fill(handle, TRACEBACK, Py_None)


cdef inline PyObject *bare_timer() except NULL:
    """A TimerHandle that the collector does not know, without callback, arguments, context, loop and time."""
    cdef PyObject *handle
    if HAS_GIL and pool.count:
        pool.count -= 1
        handle = pool.handles[pool.count]
        _Py_NewReference(handle)
        return handle
    handle = allocate(TIMER_HANDLE)
    fill_constants(handle)
    fill(handle, SCHEDULED, Py_False)
    return handle


cdef inline bint keep(PyObject *handle) noexcept:
    """Put a bare handle into the pool; False if the pool is full."""
    if not HAS_GIL or pool.count == POOL:
        return False
    pool.handles[pool.count] = handle
    pool.count += 1
    return True


cdef inline void make_bare(PyObject *handle) noexcept:
    """Make a handle like a new one of `bare_timer`."""
    release_context(taken(handle, CONTEXT))
    Py_XDECREF(taken(handle, CALLBACK))
    release_args(taken(handle, ARGS))
    Py_XDECREF(taken(handle, LOOP))
    Py_XDECREF(taken(handle, WHEN))
    restore(handle, CANCELLED, Py_False)
    restore(handle, SCHEDULED, Py_False)
    restore(handle, REPR, Py_None)
    restore(handle, TRACEBACK, Py_None)


cdef inline void dealloc(PyObject *handle) noexcept:
    """Release a handle that is no longer tracked."""
    cdef PyObject *type
    if not HAS_GIL or at(handle, WEAKREFS)[0] != NULL:
        PyObject_ClearWeakRefs(handle)
    make_bare(handle)
    if keep(handle):
        return
    clear_slots(handle)
    type = <PyObject *>Py_TYPE(handle)
    PyObject_GC_Del(handle)
    Py_DECREF(type)
