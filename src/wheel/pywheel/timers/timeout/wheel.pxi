# The timeouts on a loop that is not ours stand on a wheel, for which the loop has one timer: the alarm. Only a deadline
# before that needs another alarm. An alarm whose timeout has ended in time wakes the loop once for nothing.
#
# The loop owns the alarm until it calls it, is closed or is gone. The alarm owns the wheel, and the wheel its timeouts.
# In the other direction all is weak, so that nothing lives longer than its loop.
#
# A tick is a nanosecond: the first at which the loop's time, a float of seconds, has reached the deadline.
#
# asyncio looks for timers that are due as a turn begins, and a task that is ready by then goes first. An alarm, later
# in that turn, only knows that its own time had come by then. What came due since waits for an alarm of the next turn.

cdef enum:
    FEW = 16                            # timeouts that are looked at one by one for the earliest
    LIMIT = 1000                        # timeouts that one turn of the loop ends
    QUOTA = 4096                        # timeouts that it may move in the wheel, or collect

cdef double LAST = 2.0 ** 32            # seconds; later deadlines are left to the loop
cdef double MILLISECOND = 0.001

cdef PyObject *recent = NULL            # the wheel that was used last; borrowed, until it goes
cdef object wheels = WeakValueDictionary()      # each by its loop's id


@cython.final
@cython.internal
cdef class TimeoutWheel(TimingWheel):
    """The timeouts on a loop."""
    cdef object loop                    # weakly
    cdef KnownClass known               # of its class
    cdef uint64_t wake_before           # the tick of the alarm: an earlier deadline needs another one
    cdef PyObject *alarm                # borrowed, until it goes; NULL without one
    cdef object handle                  # the loop's, of the alarm, weakly

    def __dealloc__(self):
        global recent
        if recent == <PyObject *>self:
            recent = NULL


@cython.final
@cython.internal
cdef class Alarm:
    """What the loop calls. If the loop drops it before, as an interrupt comes or somebody cancels the handle, there is
    another one in the next turn."""
    cdef TimeoutWheel wheel

    def __call__(self):
        wake(self.wheel)

    def __dealloc__(self):
        if self.wheel is not None and self.wheel.alarm == <PyObject *>self:
            disown(self.wheel)
            wake_soon(self.wheel)


# What is weak needs no clearing, and `recent` may be asked for its loop as long as it lives.
(<PyTypeObject *>TimeoutWheel).tp_clear = (<PyTypeObject *>TimingWheel).tp_clear


cdef inline TimeoutWheel wheel_of(object loop, KnownClass known, double now):
    """The wheel of a loop."""
    global recent
    cdef TimeoutWheel wheel
    loop_ref = PyWeakref_NewRef(loop, NULL)         # the same for all who ask so
    if HAS_GIL and recent != NULL and (<TimeoutWheel>recent).loop is loop_ref:
        return <TimeoutWheel>recent
    wheel = wheels.get(id(loop))
    if wheel is None or wheel.loop is not loop_ref:
        wheel = TimeoutWheel.__new__(TimeoutWheel)
        wheel.loop, wheel.known, wheel.wake_before = loop_ref, known, NEVER
        wheel_advance_some(&wheel.wheel, last_tick(now), LIMIT, QUOTA)
        wheels[id(loop)] = wheel
    recent = <PyObject *>wheel
    return wheel


cdef inline uint64_t last_tick(double now) noexcept:
    """The last tick that, in seconds, is not after `now`."""
    return first_ns(nextafter(now, INFINITY)) - 1


cdef bint start(Timeout timeout, object loop, double due) except -1:
    """Put a timeout onto the wheel of its loop; False if that is not for it: because of the loop, or of the time."""
    cdef KnownClass of = known(loop)
    cdef TimeoutWheel wheel
    cdef uint64_t tick, timer
    cdef double now
    if of is None or is_debugged(of, loop):
        return False
    now = loop.time()
    if not now < due < LAST:
        return False
    wheel, tick, context = wheel_of(loop, of, now), first_ns(due), PyContext_CopyCurrent()
    if last_tick(now) < wheel.wheel.now:            # a test has set the clock back
        return False
    with critical_section(wheel):
        timer = wheel_schedule(&wheel.wheel, tick, <uintptr_t><PyObject *>timeout)
        if timer:
            Py_INCREF(<PyObject *>timeout)
    if timer == 0:
        raise MemoryError
    timeout.wheel, timeout.timer, timeout.context = wheel, timer, context
    if tick < wheel.wake_before:
        try:
            set_alarm(wheel, loop)
        except BaseException:           # an interrupt
            stop(timeout)
            raise
    return True


cdef int stop(Timeout timeout) except -1:
    """Take a timeout off its wheel, if it is there."""
    cdef TimeoutWheel wheel = timeout.wheel
    cdef uint32_t index
    timeout.wheel = timeout.context = None
    with critical_section(wheel):
        index = arena_find(&wheel.wheel.arena, timeout.timer)
        if index:
            wheel_remove(&wheel.wheel, index)
    if index:
        Py_DECREF(<PyObject *>timeout)
    return 0


# ---- the alarm ------------------------------------------------------------------------------------------------------

cdef int set_alarm(TimeoutWheel self, object loop) except -1:
    """Have the loop wake us for the earliest deadline. The last alarm goes after that: an interrupt leaves either."""
    cdef Alarm alarm
    cdef double now
    cdef uint64_t tick
    last, self.handle = self.handle, None
    disown(self)
    tick = earliest(self)
    if tick != NEVER:
        now = loop.time()
        tick = max(tick, last_tick(now))
        alarm = Alarm.__new__(Alarm)
        alarm.wheel = self
        self.handle = PyWeakref_NewRef(ask(self, loop, alarm, tick / 1e9, now), NULL)
        self.alarm, self.wake_before = <PyObject *>alarm, tick
    handle = last() if last is not None else None
    if handle is not None:
        handle.cancel()
    return 0


cdef inline int disown(TimeoutWheel self) noexcept:
    """Have no alarm until the loop was asked for one: each new timeout asks."""
    self.alarm, self.wake_before = NULL, NEVER
    return 0


cdef int wake_soon(TimeoutWheel self) except -1:
    """Have the loop wake us in its next turn, unless that is not to come."""
    cdef Alarm alarm
    loop = self.loop()
    if loop is not None and self.wheel.live and not loop.is_closed():
        alarm = Alarm.__new__(Alarm)
        alarm.wheel = self
        self.handle = PyWeakref_NewRef(loop.call_soon(alarm, context=Context()), NULL)
        self.alarm, self.wake_before = <PyObject *>alarm, self.wheel.now
    return 0


cdef object ask(TimeoutWheel self, object loop, Alarm alarm, double when, double now):
    """Ask the loop to wake us at `when`, or in its next turn, in a context of our own: the caller's would live on."""
    if not self.known.milliseconds:
        return loop.call_at(when, alarm, context=Context())
    if when <= now:
        return loop.call_soon(alarm, context=Context())
    return loop.call_later(ceil((when - now) / MILLISECOND) * MILLISECOND, alarm, context=Context())


cdef uint64_t earliest(TimeoutWheel self) noexcept:
    """The tick to look again: at or before the earliest deadline; NEVER without timeouts. O(levels)."""
    cdef wheel_t *w = &self.wheel
    cdef uint64_t found = NEVER, number
    cdef uint32_t rest
    cdef int l
    with critical_section(self):
        if w.live and (is_behind(w) or has_overdue(w)):
            return w.now
        rest = w.in_use if w.live else 0
        while next_occupied(w, &rest, &l, &number):
            found = min(found, earliest_of(w, l, number))
    return found


cdef uint64_t earliest_of(wheel_t *w, int level, uint64_t number) noexcept:
    """The earliest deadline in an occupied slot, or, of more than a few, the tick at which it begins."""
    cdef uint32_t slot = <uint32_t>number & SLOT_MASK, index
    cdef uint64_t found = NEVER
    cdef int i
    if w.level[level].weight[slot] > FEW:
        return number << DIGIT_BITS * level
    for i in range(1 << w.list_bits):
        index = w.level[level].heads[(slot << w.list_bits) + i]
        while index:
            found = min(found, w.arena.nodes[index].deadline)
            index = w.arena.nodes[index].next
    return found


cdef int wake(TimeoutWheel self) except -1:
    """Cancel the tasks whose time is up, and have another alarm, whatever ends this."""
    loop = self.loop()
    try:
        try:
            cancel_due(self, loop)
        finally:
            set_alarm(self, loop)
    except BaseException:
        set_alarm(self, loop)           # an interrupt may have come in the midst of the first
        raise
    return 0


cdef int cancel_due(TimeoutWheel self, object loop) except -1:
    """Cancel the tasks whose time is up, so many that the turn is not long."""
    cdef uint64_t tick = last_tick(loop.time())
    cdef bint failed
    cdef Timeout timeout
    cdef int _i
    if not self.known.milliseconds:
        tick = min(tick, self.wake_before)
    self.wake_before = 0                # there will be another alarm
    with critical_section(self):
        failed = tick >= self.wheel.now and wheel_advance_some(&self.wheel, tick, LIMIT, QUOTA)
    if failed:
        raise MemoryError
    for _i in range(LIMIT):
        timeout = pop(self)
        if timeout is None:
            break
        try:
            expire_in_context(timeout)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            loop.call_exception_handler({"message": f"Exception in callback of {timeout!r}", "exception": error})
    return 0


cdef Timeout pop(TimeoutWheel self):
    """Take a timeout that is due off the wheel; None if there is none."""
    cdef uint64_t payload, popped
    cdef Timeout timeout = None
    with critical_section(self):
        popped = wheel_pop(&self.wheel, &payload, 1)
    if popped:
        timeout = <Timeout><PyObject *><uintptr_t>payload
        Py_DECREF(<PyObject *>timeout)
    return timeout


cdef int expire_in_context(Timeout timeout) except -1:
    context = timeout.context
    if context is None:                 # another thread has taken it off in this very moment
        return 0
    PyContext_Enter(context)
    try:
        return timeout.expire()
    finally:
        PyContext_Exit(context)
