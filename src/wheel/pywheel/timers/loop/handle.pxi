# A TimerHandle is asyncio's with two fields behind the slots and a native `cancel`. While it is pending it is the item
# of its node: the wheel owns a reference to it. Its `_when` becomes an object when somebody asks for it.

cdef extern from *:
    """
    /* A chain of handles, each held by the callback of the next, is released without as deep a stack. The first in it
       do without CPython's bin for such objects, which takes a few calls. One counter serves all threads with a GIL. */
    #ifdef Py_GIL_DISABLED
      #define PYWHEEL_SHALLOW 0
    #else
      #define PYWHEEL_SHALLOW 20
    #endif
    static int pywheel_depth = 0;
    static destructor pywheel_release;
    static void pywheel_dealloc(PyObject *self) {
        PyObject_GC_UnTrack(self);
        if (pywheel_depth < PYWHEEL_SHALLOW) {
            pywheel_depth++;
            pywheel_release(self);
            pywheel_depth--;
            return;
        }
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
    """
    object derive "pywheel_derive"(const char *name, tuple bases, size_t size, void *cancel, void *traverse,
                                   void *clear, void *dealloc, void *get_when, void *set_when,
                                   void *get_context, void *set_context)


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
    """TimerHandle.cancel in debug mode, and of a handle whose loop is no longer the one it was made by."""
    if isinstance(handle._loop, WheelScheduling):
        remove(<WheelScheduling>handle._loop, <PyObject *>handle)
        watch(<PyObject *>handle)
    stock_cancel(handle)


cdef inline bint is_loop(object value):
    """isinstance(value, WheelScheduling), most often at once."""
    return Py_TYPE(<PyObject *>value).tp_base == <PyTypeObject *>WheelScheduling or isinstance(value, WheelScheduling)


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
cdef PyTypeObject *TIMER_HANDLE = <PyTypeObject *>TimerHandle
cdef Py_ssize_t WEAKREFS = TIMER_HANDLE.tp_weaklistoffset
cdef PyTypeObject *HANDLE = <PyTypeObject *>events.Handle

cdef object stock_cancel = events.TimerHandle.cancel
