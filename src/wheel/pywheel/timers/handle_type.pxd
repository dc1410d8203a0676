# The type of TimerHandles: asyncio's with two fields behind the slots and a native `cancel`.

cdef extern from *:
    """
    /* A chain of handles, each held by the callback of the next, is released without an equally deep stack. The first
       handles do without CPython's trashcan, which takes a few calls. One counter serves all threads with a GIL. */
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

    /* Cython cannot derive from a class written in Python: this makes a type of asyncio's, with room behind its slots.
    */
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
