# What all drivers share. Here are their methods; what these do with timers stands in the other files.


@cython.internal
cdef class TimerWheel(TimingWheel):
    """A wheel whose items are timers."""
    cdef uint8_t passes                 # of the collector, in which it need not look at the timers; see collector.pxi


cdef class Driver:
    """What all drivers share: they schedule timers, and run those that are due when somebody says so.

    Args:
        clock: a Clock; None for the system's monotonic one.
        tick: the resolution of deadlines, in seconds: a microsecond to an hour. Deadlines are rounded up to it.
        on_error: called as ``on_error(timer, exception)`` for what a callback raises; None to log it.
        max_pending: how many timers there may be before scheduling raises WheelFull; None for no limit.
    """
    cdef TimerWheel wheel
    cdef readonly int64_t _length       # of a tick, nanoseconds
    cdef double per_nanosecond          # ticks
    cdef bint system                    # the clock is the system's, and is read here
    cdef bint contexts                  # callbacks run in a copy of the context they were scheduled in
    cdef bint halted
    cdef object read
    cdef readonly object clock
    cdef public object on_error
    cdef bint running
    cdef uint64_t wake_before
    cdef object __weakref__

    def __cinit__(self):
        self.wheel = TimerWheel()       # a subclass may leave out our __init__
        set_clock(self, MonotonicClock(), 1_000_000)

    def __init__(self, clock=None, tick=0.001, *, on_error=None, max_pending=None, contexts=False):
        set_clock(self, monotonic_or(clock), tick_ns(tick))
        self.on_error = arguments.callable_or_none(on_error, "on_error")
        self.contexts = contexts
        self.halted = False
        cdef uint64_t start = ticks_by(self, now_ns(self))
        track_all(self.wheel)           # what was scheduled before another __init__
        self.wheel.__init__(start, max_pending=max_pending)

    @property
    def tick(self):
        """The resolution of deadlines, in seconds."""
        return self._length / 1e9

    @property
    def stopped(self):
        """Whether it was stopped."""
        with critical_section(self.wheel):
            return self.halted

    @property
    def _running(self):
        with critical_section(self.wheel):
            return self.running

    @_running.setter
    def _running(self, bint running):
        with critical_section(self.wheel):
            self.running = running

    @property
    def _wake_before(self):
        """A deadline before this tick makes the driver wake earlier."""
        return read_shared(&self.wake_before)

    @_wake_before.setter
    def _wake_before(self, uint64_t tick):
        write_shared(&self.wake_before, tick)

    def time(self):
        """Return the time of its clock, in seconds."""
        return now_ns(self) / 1e9

    def call_later(self, delay, callback, *args, context=None):
        """Call ``callback(*args)`` once, `delay` seconds from now, and never earlier.

        Args:
            delay: seconds or timedelta; 0 or less: as soon as possible.
            callback: a callable.
            args: its arguments.
            context: the contextvars.Context to call it in.

        Returns:
            The timer.

        Raises:
            TypeError: callback is not callable, delay is no number, context no Context.
            ValueError: delay is not finite, or beyond 146 years.
            TimersStopped: the driver was stopped.
            WheelFull: `max_pending` timers are pending.

        O(1). After an error nothing is scheduled.
        """
        cdef int64_t nanoseconds = as_ns(delay, "delay")
        cdef Timer timer = new_timer(self, callback, args, context)
        timer.delay = nanoseconds
        return schedule(self, timer, <uint64_t>now_ns(self) + nanoseconds)

    def call_at(self, when, callback, *args, context=None):
        """Call ``callback(*args)`` once, at `when` on the driver's clock, in seconds. As `call_later` otherwise."""
        cdef int64_t ns = as_ns(when, "when")
        cdef Timer timer = new_timer(self, callback, args, context)
        timer.delay = max(0, ns - now_ns(self))
        return schedule(self, timer, ns)

    def call_every(self, interval, callback, *args, first=None, jitter=0, missed="skip", context=None):
        """Call ``callback(*args)`` again and again. There is no drift: call k is planned at `first` + k intervals.

        Args:
            interval: seconds or timedelta, more than 0.
            first: seconds from now to the first call; None for one interval.
            jitter: each call comes up to so many seconds after its planned time, at random.
            missed: what happens to calls whose time has passed while the driver could not run: "skip" leaves them out
                and goes on with the next planned time, "burst" makes up for each, "delay" counts anew from now.

        Returns:
            The timer; it is active until it is cancelled.

        Raises:
            TypeError, TimersStopped: as for `call_later`.
            ValueError: so too; also an interval that is not more than 0, or another `missed`.

        O(1).
        """
        cdef PeriodicTimer timer = PeriodicTimer.__new__(PeriodicTimer)
        cdef int64_t head
        timer.delay = arguments.interval(interval)
        fill(timer, self, callback, args)
        head = timer.delay if first is None else as_ns(first, "first")
        timer.jitter = as_ns(jitter, "jitter")
        timer.missed = arguments.missed(missed)
        set_context(timer, context)
        timer.planned = <uint64_t>now_ns(self) + head
        draw(timer)
        head = timer.lateness
        draw(timer)
        return schedule(self, timer, timer.planned + head)

    def pending(self):
        """Return the timers that are to be called, by deadline. O(n log n)."""
        cdef walk_t walk
        cdef list deadlines = [], stamps = [], timers = []
        with critical_section(self.wheel):
            walk = live_nodes(&self.wheel.wheel.arena)
            while next_live(&walk):
                deadlines.append(walk.node.deadline)
                stamps.append(walk.node.stamp >> GEN_BITS)
                timers.append(<object><PyObject *><uintptr_t>walk.node.payload)
        return [timer for _, _, timer in sorted(zip(deadlines, stamps, timers))]

    def next_deadline(self):
        """Return when to look again, in seconds on the clock: no later than the first deadline. None if none pends.

        It may lie before the first deadline; a loop that runs what is due then makes progress. O(1).
        """
        cdef uint64_t tick = next_tick(self)
        return None if tick == NEVER else tick * self._length / 1e9

    def __len__(self):
        """Timers that are to be called. O(1)."""
        with critical_section(self.wheel):
            return self.wheel.wheel.live

    # ---- for the drivers --------------------------------------------------------------------------------------------

    def _sooner(self):
        """Wake up: a deadline lies before `_wake_before`. Called in the thread that schedules."""

    def _spawn(self, timer, coroutine, context):
        """Do something with a coroutine that a callback returned, which ran in that context or in none."""
        coroutine.close()
        raise TypeError("a callback must not be a coroutine function here: only AsyncTimers can await what it returns")

    def _report(self, timer, error):
        arguments.report(self.on_error, timer, error)

    def _now_ns(self):
        return now_ns(self)

    def _next_tick(self):
        """Return the tick by which to look again."""
        cdef uint64_t tick = next_tick(self)
        return None if tick == NEVER else tick

    def _run(self, limit=NEVER):
        """Run what is due now, at most `limit` callbacks; return how many ran.

        Timers that a callback schedules come in a later turn, even if they are due at once.
        """
        begin(self)
        try:
            return turn(self, now_ns(self), limit, True)
        finally:
            end(self)

    def _run_some(self, limit):
        """Do as `_run`, for drivers that must not pause; return whether more was due.

        It collects some thousand timers at most, so it may have nothing to call yet.
        """
        cdef uint64_t most = limit, now
        begin(self)
        try:
            now = now_ns(self)
            if turn(self, now, most, False) == most:
                return True
            with critical_section(self.wheel):      # if the clock went back, nothing is due
                return is_behind(&self.wheel.wheel) and self.wheel.wheel.now <= ticks_by(self, now)
        finally:
            end(self)

    def _run_for_clock(self):
        """`_run`, for a clock that only knows the driver weakly: that it runs does not say that it is in use."""
        cdef uint8_t passes = self.wheel.passes
        try:
            return self._run()
        finally:
            self.wheel.passes = passes

    def _stop(self):
        """Refuse new timers from now on, and return those that were pending, by deadline."""
        with critical_section(self.wheel):
            self.halted = True          # from here on none of them is called
        cdef list left = [timer for timer in self.pending() if halt(timer)]
        empty(self)
        return left

    @property
    def _touched(self):
        """How many timers collecting has moved in the wheel so far, or out of it. For tests."""
        with critical_section(self.wheel):
            return self.wheel.wheel.touched

    def _check(self):
        """Recompute every invariant of the wheel slowly; RuntimeError says which one is broken. For tests. O(n)."""
        self.wheel._check()

    def _forget(self):
        """Drop all timers, as a forked child must."""
        empty(self)


cdef int begin(Driver self) except -1:
    """Begin a turn; there is one at a time."""
    cdef bint busy
    with critical_section(self.wheel):
        busy = self.running
        if not busy:                    # or it might stay so: who runs it may be about to say that it is over
            self.running = True
    if busy:
        raise arguments.reentered()
    return 0


cdef int end(Driver self) except -1:
    with critical_section(self.wheel):
        self.running = False
    return 0


cdef bint halt(Timer self) noexcept:
    """Whether it was pending still."""
    cdef bint was
    with critical_section(self.driver.wheel):
        was = self.state == PENDING
        if was:
            self.state = STOPPED
    return was


cdef int empty(Driver self) except -1:
    """Take all timers out of the wheel: from here on they own what they refer to."""
    track_all(self.wheel)
    self.wheel.clear()
    return 0


cdef uint64_t next_tick(Driver self) noexcept:
    cdef uint64_t tick
    with critical_section(self.wheel):
        tick = wheel_next_deadline(&self.wheel.wheel)
    return tick


cdef Driver nobody = Driver()
nobody.halted = True
