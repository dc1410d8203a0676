# The context of a timer is a copy of the current one at scheduling. A copy shares the variables of the original, an
# object that never changes. So a timer keeps the variables in place of a context. The context is made when the callback
# runs, or on first access. Most timers are cancelled before.

from cpython.object cimport PyObject

from pywheel.core.bits cimport HAS_GIL
from pywheel.timers.slots cimport CONTEXT, at

cdef extern from *:
    """
    /* As in CPython's pycore_context.h; `find_variables` checks it. */
    typedef struct {
        PyObject_HEAD
        PyObject *previous;
        PyObject *variables;
        PyObject *weakrefs;
        int entered;
    } pywheel_context;

    /* Borrowed; NULL in a thread that has had no context yet. */
    static CYTHON_INLINE PyObject *pywheel_current_variables(void) {
        PyObject *context = PyThreadState_Get()->context;
        return context == NULL ? NULL : ((pywheel_context *)context)->variables;
    }

    static PyTypeObject *pywheel_variables_type = NULL;
    """
    ctypedef struct context_t "pywheel_context":
        PyObject *variables
    PyObject *current_variables "pywheel_current_variables"() noexcept
    PyTypeObject *VARIABLES "pywheel_variables_type"        # NULL if contexts do not match `context_t`

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    PyTypeObject *Py_TYPE(PyObject *value)
    PyObject *Py_NewRef(PyObject *value)
    void Py_DECREF(PyObject *value)
    PyObject *PyContext_CopyCurrent() except NULL
    PyObject *PyContext_New()


cdef inline PyObject *new_context(PyObject *variables) noexcept:
    """Return a context with these variables; NULL, with an error set, without memory."""
    cdef PyObject *made = PyContext_New()
    cdef PyObject *none
    if made != NULL:
        none = (<context_t *>made).variables
        (<context_t *>made).variables = Py_NewRef(variables)
        Py_DECREF(none)
    return made


cdef inline int find_variables() except -1:
    """Set VARIABLES, after a trial: a context made of the variables of another has their values.

    Each module that keeps variables calls this when it is imported.
    """
    global VARIABLES
    from contextvars import Context, ContextVar
    cdef PyObject *variables
    trial, context = ContextVar("trial"), Context()
    context.run(trial.set, trial)
    if HAS_GIL and type(context).__basicsize__ == sizeof(context_t):
        variables = (<context_t *><PyObject *>context).variables
        if type(<object>variables).__name__ == "hamt":
            copy = <object>new_context(variables)
            Py_DECREF(<PyObject *>copy)
            if copy[trial] is trial:
                VARIABLES = Py_TYPE(variables)
    return 0


cdef inline bint is_variables(PyObject *value) noexcept:
    """Whether it is an object that `snapshot` keeps in place of a context."""
    return Py_TYPE(value) == VARIABLES


cdef inline PyObject *snapshot() except NULL:
    """The object that a timer keeps for a copy of the current context: its variables, or a copy."""
    cdef PyObject *variables = current_variables() if VARIABLES != NULL else NULL
    return PyContext_CopyCurrent() if variables == NULL else Py_NewRef(variables)


cdef inline bint make_context(PyObject *handle) noexcept:
    """Make the context of a handle that keeps variables. False: no memory, and an error is set."""
    cdef PyObject *kept = at(handle, CONTEXT)[0]
    cdef PyObject *made
    if kept != NULL and is_variables(kept):
        made = new_context(kept)
        if made == NULL:
            return False
        at(handle, CONTEXT)[0] = made
        Py_DECREF(kept)
    return True
