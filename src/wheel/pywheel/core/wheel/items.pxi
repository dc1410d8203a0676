# A TimingWheel owns one reference for each live timer, in the node's payload. They are dropped only when the wheel is
# consistent again, since `__del__` and weak reference callbacks may call any method.
#
# What the garbage collector sees of what a wheel owns, in index order, which is the order of memory:
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
# What is hidden counts as referred to from elsewhere, and stays alive. Where there is no GIL nothing is hidden.
# timers/collector.pxi and loop/collector.pxi say why that is right.

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
