# Loops of others whose timers are known: asyncio's own and uvloop's, as they were made. Nothing is known of a loop of a
# subclass, nor of one whose `time` or `call_at` somebody has replaced, in the class or in the loop.

cdef extern from *:
    """
    /* Python gives a class another version when it or a base of it is changed; 0 says that it has none yet. */
    #ifdef Py_GIL_DISABLED
      #define pywheel_version(self) _Py_atomic_load_uint_relaxed(&Py_TYPE(self)->tp_version_tag)
    #else
      #define pywheel_version(self) (Py_TYPE(self)->tp_version_tag)
    #endif

    /* Whether an object has a method of its class by that name, and nothing of its own in front of it; -1: an error. */
    static int pywheel_has_method(PyObject *self, PyObject *name) {
    #if PY_VERSION_HEX < 0x030D0000         /* where to ask for `__dict__` would make one, and the loop slower */
        PyObject *found = NULL;
        int has = _PyObject_GetMethod(self, name, &found);
        if (found == NULL)
            return -1;
        Py_DECREF(found);
        return has;
    #else
        PyObject *own = PyObject_GenericGetDict(self, NULL);
        int has;
        if (own == NULL)
            return -1;
        has = PyDict_Contains(own, name);
        Py_DECREF(own);
        return has < 0 ? -1 : !has;
    #endif
    }
    """
    unsigned int version_of "pywheel_version"(object self)
    bint has_method "pywheel_has_method"(object self, object name) except -1


@cython.final
@cython.internal
cdef class KnownClass:
    """A class of loops."""
    cdef object loops                   # the class
    cdef list methods                   # what timers need of it, as it was made
    cdef unsigned int version           # of the class, when that was looked at last
    cdef bint unchanged                 # since it was made
    cdef bint milliseconds              # its timers count in whole ones, and may come up to one early

    cdef int look(self, object loop) except -1:
        """See whether somebody has changed the class."""
        self.unchanged = methods_of(self.loops) == self.methods
        self.version = version_of(loop)
        return 0


cdef KnownClass known_class(loops, list methods, bint milliseconds):
    cdef KnownClass made = KnownClass.__new__(KnownClass)
    made.loops, made.methods, made.milliseconds = loops, methods, milliseconds
    return made


cdef list methods_of(loops):
    return [getattr(loops, name) for name in ("time", "call_at", "call_later", "call_soon")]


cdef KnownClass of_asyncio = known_class(StockLoop, methods_of(StockLoop), False)
cdef KnownClass of_uvloop = None        # until such a loop has come


cdef inline KnownClass known(object loop):
    """What is known of the loop, None if that is nothing."""
    cdef KnownClass found
    if type(loop) is of_asyncio.loops:
        found = of_asyncio
    else:
        found = known_of_uvloop(type(loop))
        if found is None:
            return None
    if unlikely(version_of(loop) != found.version or found.version == 0):
        found.look(loop)
    return found if found.unchanged and has_method(loop, "time") and has_method(loop, "call_at") else None


cdef inline KnownClass known_of_uvloop(loops):
    global of_uvloop
    if of_uvloop is None and loops.__module__ == "uvloop" and loops.__name__ == "Loop":
        of_uvloop = known_class(loops, methods_of(loops.__base__), True)     # written in C: nobody changes that
    return of_uvloop if of_uvloop is not None and loops is of_uvloop.loops else None


cdef inline bint is_debugged(KnownClass known, object loop) except -1:
    """loop.get_debug()"""
    return loop.get_debug() if known.milliseconds else loop._debug
