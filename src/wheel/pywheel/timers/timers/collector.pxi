# What the garbage collector sees of pending timers.
#
# A collection looks at every object it knows, and a hundred thousand pending timers would hold everything up for tens
# of milliseconds. So a driver with many of them has its further ones *apart*: the collector does not know them, nor
# the tuple of arguments and the copy of the context that were made for them. What they refer to is visited by the
# wheel, in their place, when nobody else holds them. Of those that somebody holds it is not: to the collector that
# looks like a reference from outside, so all of it stays alive. The same goes for a tuple or a context: code that runs
# in the midst of a call can get hold of one, and the contexts of an EventLoop's timers, which it does not know either,
# can be given to a timer. A timer is apart until it ends; those that leave the wheel otherwise become ordinary objects.
#
# Even that would take tens of milliseconds for a million of them, only to learn that a driver which is at work is no
# garbage. So the two passes of the first collection after it was used see nothing of its timers, which again keeps all
# alive: garbage is not used, and the next collection finds it. What a clock runs that does not hold the driver is no
# use. What must never happen is that the first pass of a collection visits what the second does not; between the two
# nothing uses a driver.
#
# Without a GIL all this is left out: there another thread might take hold of a timer unnoticed.

cdef enum:
    TRACKED = 1000                      # pending timers of a driver that are ordinary objects for the collector
    IN_USE = 2                          # passes of one collection


cdef inline int set_apart(Timer self) noexcept:
    """Hide a new timer from the collector."""
    PyObject_GC_UnTrack(self)
    self.apart = True
    return 0


cdef int track(Timer self) noexcept:
    """Make a timer an ordinary object for the collector, and what is its own as well."""
    if self.apart:
        self.apart = False
        if self.shape == MANY_ARGUMENTS:
            track_object(self.payload)
        if has_context(self):
            track_object((<ContextTimer>self).context)
        PyObject_GC_Track(self)
    return 0


cdef int track_all(TimerWheel self) noexcept:
    """Make all pending timers ordinary objects, as they are about to leave the wheel."""
    cdef walk_t walk
    with critical_section(self):
        walk = live_nodes(&self.wheel.arena)
        while next_live(&walk):
            track(<Timer><PyObject *><uintptr_t>walk.node.payload)
    return 0


cdef inline int track_object(value) noexcept:
    """Make an object known to the collector again, or None."""
    if value is not None and not PyObject_GC_IsTracked(<PyObject *>value):
        PyObject_GC_Track(value)
    return 0


cdef inline int visit_own(PyObject *value, visitproc visit, void *arg) noexcept:
    """Visit an object or, if the collector does not know it and only the timer has it, what that refers to."""
    if PyObject_GC_IsTracked(value):
        return visit(value, arg)
    return Py_TYPE(value).tp_traverse(value, visit, arg) if Py_REFCNT(value) == 1 else 0


cdef inline int traverse_apart(PyObject *self, visitproc visit, void *arg) noexcept:
    """Visit what a timer refers to that only the wheel refers to. Without an assignment, which would count."""
    cdef int stop = visit(<PyObject *>(<Timer>self).function, arg)
    if stop == 0 and (<Timer>self).bound is not None:
        stop = visit(<PyObject *>(<Timer>self).bound, arg)
    if stop == 0 and (<Timer>self).shape == ONE_ARGUMENT and not (<Timer>self).atom:
        stop = visit(<PyObject *>(<Timer>self).payload, arg)
    if stop == 0 and (<Timer>self).shape == MANY_ARGUMENTS:
        stop = visit_own(<PyObject *>(<Timer>self).payload, visit, arg)
    if stop == 0 and Py_TYPE(self) != <PyTypeObject *>Timer and (<ContextTimer>self).context is not None:
        stop = visit_own(<PyObject *>(<ContextTimer>self).context, visit, arg)
    return stop or visit(<PyObject *>(<Timer>self).driver, arg)


cdef int traverse_timers(PyObject *self, visitproc visit, void *arg) noexcept:
    cdef walk_t walk = live_nodes(&(<TimerWheel>self).wheel.arena)
    cdef PyObject *timer
    cdef int stop = 0
    if HAS_GIL and (<TimerWheel>self).passes and (<TimerWheel>self).wheel.live >= TRACKED:
        (<TimerWheel>self).passes -= 1
        return 0
    while stop == 0 and next_live(&walk):
        timer = <PyObject *><uintptr_t>walk.node.payload
        if not (<Timer>timer).apart:
            stop = visit(timer, arg)
        elif Py_REFCNT(timer) == 1:
            stop = traverse_apart(timer, visit, arg)
    return stop                         # the other attributes of a wheel are numbers


# Cython's tp_clear would put None where the code trusts in a driver and a wheel, while finalisers may still call.

cdef int clear_timer(PyObject *self) noexcept:
    release_timer(<Timer>self)
    return 0


cdef int clear_wheel(PyObject *self) noexcept:
    track_all(<TimerWheel>self)
    return clear_items(self)


cdef int clear_driver(PyObject *self) noexcept:
    cdef Driver driver = <Driver>self
    driver.on_error = driver.clock = driver.read = None
    return 0


cdef inquiry clear_items = (<PyTypeObject *>TimerWheel).tp_clear

(<PyTypeObject *>TimerWheel).tp_traverse = traverse_timers
(<PyTypeObject *>TimerWheel).tp_clear = clear_wheel
(<PyTypeObject *>Timer).tp_clear = clear_timer
(<PyTypeObject *>ContextTimer).tp_clear = clear_timer
(<PyTypeObject *>PeriodicTimer).tp_clear = clear_timer
(<PyTypeObject *>Driver).tp_clear = clear_driver
