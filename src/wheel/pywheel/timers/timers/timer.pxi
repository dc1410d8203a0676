# A timer, and what its methods do to it in the wheel.

ctypedef uint8_t bint_t                 # a truth value that takes a byte

cdef enum:
    PENDING                             # in the wheel; a periodic timer stays there while its callback runs
    RUNNING                             # taken out of it, and its callback has not returned
    FIRED
    CANCELLED
    STOPPED

cdef enum:
    NO_ARGUMENT                         # how `payload` holds the arguments: it is None,
    ONE_ARGUMENT                        # the only one,
    MANY_ARGUMENTS                      # or a tuple of them


@cython.freelist(256)
@cython.trashcan(True)                # a chain of timers, each an argument of the next, would overflow the stack
cdef class Timer:
    """A callback and its deadline; a driver's methods make it.

    Attributes:
        callback: what is called, or an equal one if that is a bound method; None once it is released, after it ran or
            was cancelled.
        args: the arguments it is called with; empty once released.
    """
    cdef Driver driver
    cdef object function
    cdef object bound                   # what `function` is a method of, or None
    cdef object payload
    cdef int64_t delay                  # nanoseconds, for `reset`; the interval of a periodic timer
    cdef uint32_t index                 # of its node, while it is pending; see node_of
    cdef uint8_t state
    cdef uint8_t shape                  # of payload
    cdef bint_t apart                   # the collector does not know it
    cdef bint_t atom                    # payload is nothing that the collector could know

    def __cinit__(self):
        self.driver = nobody            # until a driver takes it: no method has to ask for None
        self.state = STOPPED

    def __init__(self, *args, **kwargs):
        raise TypeError("timers are made by a driver: use its call_later, call_at or call_every")

    def __repr__(self):
        return arguments.describe(self)

    def __reduce__(self):
        raise TypeError("cannot copy or pickle a timer")

    @property
    def callback(self):
        with critical_section(self.driver.wheel):
            function, bound = self.function, self.bound
        return function if bound is None else PyMethod_New(function, bound)

    @property
    def args(self):
        with critical_section(self.driver.wheel):
            shape, payload = self.shape, self.payload
        if shape == NO_ARGUMENT:
            return ()
        return (payload,) if shape == ONE_ARGUMENT else (*payload,)    # a copy: the collector may not know ours

    @cython.always_allow_keywords(False)
    def cancel(self):
        """Stop the timer, and release the callback and its arguments before returning.

        Returns:
            True, or False if it ran, was cancelled or was stopped before.

        O(1).
        """
        cdef uint32_t index
        with critical_section(self.driver.wheel):
            index = node_of(self)
            if index:
                wheel_remove(&self.driver.wheel.wheel, index)
                self.state = CANCELLED
        if index == 0:
            return False
        release_timer(self)
        Py_DECREF(<PyObject *>self)
        return True

    def reset(self, delay=None, /):
        """Start the timer anew: it is due `delay` seconds from now. For keep-alives, heartbeats, idle timeouts.

        Its own callback may do so too, once for one more call.

        Args:
            delay: seconds or timedelta; None for the delay it was made with, or the interval of a periodic timer.

        Returns:
            True, or False if it ran, was cancelled or was stopped before.

        Raises:
            TypeError, ValueError: delay is no finite number of seconds. TimersStopped. Nothing has changed.

        O(1).
        """
        prefetch_node(self)             # while the clock is read
        cdef int64_t nanoseconds = self.delay if delay is None else as_ns(delay, "delay")
        cdef uint64_t ns = <uint64_t>now_ns(self.driver) + nanoseconds
        return rearm(self, ns, ns)

    def reschedule(self, when, /):
        """Move the timer to a time on its driver's clock, in seconds. As `reset` otherwise; a past time is due now."""
        cdef uint64_t ns = as_ns(when, "when")
        return rearm(self, ns, max(ns, <uint64_t>now_ns(self.driver)) if type(self) is PeriodicTimer else ns)

    def when(self):
        """Return when it is due, in seconds on its driver's clock, rounded up to the tick; None unless it is active."""
        cdef uint64_t tick = deadline_of(self)
        return None if tick == NEVER else tick * self.driver._length / 1e9

    def remaining(self):
        """Return the seconds until it is due, 0 if it is late, rounded up to the tick; None unless it is active."""
        cdef uint64_t tick = deadline_of(self)
        if tick == NEVER:
            return None
        return max(0, <int64_t>(tick * self.driver._length) - now_ns(self.driver)) / 1e9

    def active(self):
        """Return whether it is going to be called."""
        return deadline_of(self) != NEVER

    def cancelled(self):
        """Return whether `cancel` stopped it."""
        with critical_section(self.driver.wheel):
            return self.state == CANCELLED


@cython.internal
cdef class ContextTimer(Timer):
    cdef object context

    def __dealloc__(self):
        track_object(self.context)      # a context that is released must be tracked


cdef int release_timer(Timer self) except -1:
    """Drop all that a timer which has ended refers to, when it no longer does."""
    cdef object _function, _bound, _payload, _context = None
    cdef Driver _driver = None
    with critical_section(self.driver.wheel):
        _function, self.function = self.function, None
        _bound, self.bound = self.bound, None
        _payload, self.payload = self.payload, None
        if self.apart and self.shape == MANY_ARGUMENTS and Py_REFCNT(<PyObject *>_payload) > 1:
            track_object(_payload)      # somebody has got hold of it
        self.shape = NO_ARGUMENT
        if has_context(self):
            _context, (<ContextTimer>self).context = (<ContextTimer>self).context, None
            track_object(_context)
        if self.apart:                  # who holds it may belong to the driver, and the collector does not see it
            _driver, self.driver = self.driver, nobody
    return 0


cdef inline bint has_context(Timer self) noexcept:
    return type(self) is not Timer and isinstance(self, ContextTimer)


cdef inline uint32_t node_of(Timer self) noexcept:
    """The index of its node, in a critical section; 0 if it is not in the wheel: it has ended, or that was cleared."""
    cdef arena_t *a = &self.driver.wheel.wheel.arena
    cdef node_t *node
    if self.state != PENDING or self.index >= a.used:
        return 0
    node = a.nodes + self.index
    return self.index if is_live(node) and node.payload == <uintptr_t><PyObject *>self else 0


cdef inline void prefetch_node(Timer self) noexcept:
    """Fetch the timer's node into the cache; not where other threads may move the pool meanwhile."""
    if HAS_GIL:
        prefetch(self.driver.wheel.wheel.arena.nodes + self.index)


cdef uint64_t deadline_of(Timer self) noexcept:
    """Its tick, or NEVER if it is not pending."""
    cdef uint32_t index
    with critical_section(self.driver.wheel):
        index = node_of(self)
        return self.driver.wheel.wheel.arena.nodes[index].deadline if index else NEVER


cdef bint rearm(Timer self, uint64_t ns, uint64_t planned) except -1:
    """Have the timer called at `ns` on the clock, if it is pending or its callback is running.

    The later calls of a periodic one count from `planned`.
    """
    cdef Driver driver = self.driver
    cdef wheel_t *w = &driver.wheel.wheel
    cdef uint64_t tick = ticks_until(driver, ns)
    cdef uint32_t index
    cdef int problem = NOT_THERE
    with critical_section(driver.wheel):
        if self.state == PENDING:
            index = node_of(self)
            driver.wheel.passes = IN_USE
            if index:
                problem = NO_MEMORY if wheel_move(w, index, tick) else 0
        elif self.state == RUNNING:
            problem = put(driver, self, tick)
        elif self.state == STOPPED:
            problem = HALTED
        if problem == 0 and type(self) is PeriodicTimer:
            (<PeriodicTimer>self).planned = planned
            (<PeriodicTimer>self).behind = False
    if problem == NOT_THERE:
        return False
    if problem:
        refuse(driver, problem)
    if tick < read_shared(&driver.wake_before):
        driver._sooner()
    return True
