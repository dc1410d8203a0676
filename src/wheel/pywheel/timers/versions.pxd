# Checks whether a class was changed, or an object has an attribute that hides one of its methods.

cdef extern from *:
    """
    /* Python gives a class another version when it or a base of it is changed; 0 says that it has none yet. */
    #ifdef Py_GIL_DISABLED
      #define pywheel_version(self) _Py_atomic_load_uint_relaxed(&Py_TYPE(self)->tp_version_tag)
    #else
      #define pywheel_version(self) (Py_TYPE(self)->tp_version_tag)
    #endif

    /* Whether an object has a method of its class by that name that none of its own attributes hides; -1: an error. */
    static CYTHON_INLINE int pywheel_has_method(PyObject *self, PyObject *name) {
    #if PY_VERSION_HEX < 0x030D0000         /* reading `__dict__` would make one, and the loop slower */
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
