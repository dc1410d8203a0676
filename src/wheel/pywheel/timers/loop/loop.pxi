# The loop that programs have: what it keeps, what asyncio's own code finds in it, and what subclasses have overridden.

cdef extern from *:
    """
    /* Python gives a class another version when it or a base of it is changed; 0 says that it has none yet. */
    #ifdef Py_GIL_DISABLED
      #define pywheel_version(self) _Py_atomic_load_uint_relaxed(&Py_TYPE(self)->tp_version_tag)
    #else
      #define pywheel_version(self) (Py_TYPE(self)->tp_version_tag)
    #endif
    """
    unsigned int version_of "pywheel_version"(object self)

cdef tuple OVERRIDABLE = ("time", "call_at", "_call_soon", "_run_once")

cdef object epoll_selector = getattr(selectors, "EpollSelector", None)


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
                    remove(self, <PyObject *>handle)
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

    @property
    def _touched(self):
        """How many timers collecting has moved in the wheel so far, or out of it. For tests."""
        with critical_section(self.timers):
            return self.timers.wheel.touched

    def _check(self):
        """Recompute every invariant of the wheel slowly; RuntimeError says which one is broken. For tests. O(n)."""
        self.timers._check()

    def _run_once(self):
        """Run one turn: wait for files and timers, then run what is ready by then."""
        turn(self)
