"""Timers with a callback, and the common part of all drivers: the wheel of `_wheel`, a clock, and calls."""

# A pending Timer is the item of its node: the wheel owns a reference to it, so it lives until it ends.
# Each change of a timer's state happens together with the wheel's, in one critical section on the wheel, in which no
# Python code runs and no object is made that the garbage collector tracks. Callbacks and arguments are dropped after
# it. A driver has one wheel for all its life, and a timer one driver until it has ended, so both can be read outside.
#
# `_wake_before` is read outside as well, by each new timer. A driver writes it before it looks for the next deadline,
# and a timer is in the wheel before the timer reads it. So either the driver sees the timer, or the timer sees the
# write.

cimport cython

import random as _random
from types import CoroutineType

from cpython.object cimport PyObject, PyCallable_Check
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cython cimport critical_section
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t

from pywheel.core._wheel cimport TimingWheel
from pywheel.core.advance cimport (is_behind, wheel_advance, wheel_advance_some, wheel_collect_more,
                                   wheel_next_deadline, wheel_pop)
from pywheel.core.arena cimport GEN_BITS, arena_t, index_in, is_live, live_nodes, next_live, node_t, walk_t
from pywheel.core.bits cimport HAS_GIL, prefetch, read_shared, write_shared
from pywheel.core.levels cimport NEVER, wheel_t
from pywheel.core.schedule cimport wheel_move, wheel_remove, wheel_schedule
from pywheel.timers.calls cimport call_many, call_one
from pywheel.timers.clock cimport HAS_CLOCK, first_ns, monotonic_ns
from pywheel.timers.contexts cimport find_variables, is_variables, new_context, snapshot

from pywheel._errors import WheelFull
from pywheel.timers import _arguments as arguments
from pywheel.clock import MonotonicClock, monotonic_or
from pywheel._seconds import LONGEST as _LONGEST, tick_ns, unsigned_ns

cdef extern from "Python.h":
    bint PyMethod_Check(object value)
    PyObject *PyMethod_GET_FUNCTION(object method)
    PyObject *PyMethod_GET_SELF(object method)
    object PyMethod_New(object function, object bound)
    int PyContext_Enter(object context)
    int PyContext_Exit(object context)
    int64_t PyLong_AsLongLongAndOverflow(object value, int *overflow) noexcept
    void Py_INCREF(object value)
    void Py_DECREF(PyObject *value)
    Py_ssize_t Py_REFCNT(PyObject *value)
    ctypedef int (*visitproc)(PyObject *, void *) noexcept
    ctypedef int (*traverseproc)(PyObject *, visitproc, void *) noexcept
    ctypedef int (*inquiry)(PyObject *) noexcept
    ctypedef struct PyTypeObject:
        traverseproc tp_traverse
        inquiry tp_clear
    PyTypeObject *Py_TYPE(PyObject *value)
    bint PyType_IS_GC(PyTypeObject *kind)
    void PyObject_GC_Track(object value)
    void PyObject_GC_UnTrack(object value)
    bint PyObject_GC_IsTracked(PyObject *value)
    unsigned long PyThread_get_thread_ident()


find_variables()


# ---- seconds, nanoseconds and ticks ---------------------------------------------------------------------------------

cdef inline int64_t as_ns(object value, str name) except -1:
    """Seconds as nanoseconds; a negative number becomes 0."""
    cdef double number
    cdef int64_t whole
    cdef int overflow
    if type(value) is float:
        number = <double>value
        if 0 <= number < 1e9:
            return first_ns(number)
    elif type(value) is int:
        whole = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and whole < 1_000_000_000:
            return whole * 1_000_000_000 if whole > 0 else 0
    return other_ns(value, name)


cdef int64_t other_ns(object value, str name) except -1:
    return unsigned_ns(value, name)


cdef int set_clock(Driver self, clock, int64_t length) except -1:
    self.read = clock.time_ns
    self.clock = clock
    self.system = HAS_CLOCK and type(clock) is MonotonicClock
    self._length = length
    self.per_nanosecond = 1.0 / length
    return 0


cdef inline int64_t now_ns(Driver self) except -1:
    return monotonic_ns() if self.system else other_clock(self)


cdef int64_t other_clock(Driver self) except -1:
    now = self.read()
    return now if type(now) is int and 0 <= now <= _LONGEST else arguments.clock_ns(now, self.clock)


cdef inline uint64_t ticks_by(Driver self, uint64_t ns) noexcept:
    """Whole ticks in `ns`: a division, which a multiplication does faster."""
    cdef uint64_t ticks = <uint64_t>(<double>ns * self.per_nanosecond)
    cdef int64_t rest = <int64_t>(ns - ticks * <uint64_t>self._length)
    while rest < 0:
        ticks -= 1
        rest += self._length
    while rest >= self._length:
        ticks += 1
        rest -= self._length
    return ticks


cdef inline uint64_t ticks_until(Driver self, uint64_t ns) noexcept:
    """The first tick at or after `ns`."""
    return ticks_by(self, ns + <uint64_t>self._length - 1)


# ---- a timer, and what its methods do to it in the wheel ------------------------------------------------------------

ctypedef uint8_t bint_t                 # a truth value that takes a byte

cdef enum:
    PENDING                             # in the wheel; a periodic timer stays there while its callback runs
    RUNNING                             # taken out of the wheel, while its callback runs
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
    """A callback and its deadline, made by a driver's methods.

    Attributes:
        callback: the function to call, or an equal one if it is a bound method; None once it is released, after it ran
            or was cancelled.
        args: its arguments; empty once released.
    """
    cdef Driver driver
    cdef object function
    cdef object bound                   # the object whose method `function` is, or None
    cdef object payload
    cdef int64_t delay                  # nanoseconds, for `reset`; the interval of a periodic timer
    cdef uint32_t index                 # of its node, while it is pending; see node_of
    cdef uint8_t state
    cdef uint8_t shape                  # of payload
    cdef bint_t apart                   # hidden from the collector
    cdef bint_t atom                    # payload is an object that the collector does not track

    def __cinit__(self):
        self.driver = nobody            # until a driver takes it: no method must check for None
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

        Its own callback may do so as well, once for one more call.

        Args:
            delay: seconds or timedelta; None for the delay it was made with, or the interval of a periodic timer.

        Returns:
            True, or False if it ran, was cancelled or was stopped before.

        Raises:
            TypeError, ValueError: delay is not a finite number of seconds. TimersStopped. Nothing has changed.

        O(1).
        """
        prefetch_node(self)             # while the clock is read
        cdef int64_t nanoseconds = self.delay if delay is None else as_ns(delay, "delay")
        cdef uint64_t ns = <uint64_t>now_ns(self.driver) + nanoseconds
        return rearm(self, ns, ns)

    def reschedule(self, when, /):
        """Move the timer to a time on its driver's clock, in seconds; a past time is due now. Otherwise as `reset`."""
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
        """Return whether the timer will be called."""
        return deadline_of(self) != NEVER

    def cancelled(self):
        """Return whether `cancel` stopped it."""
        with critical_section(self.driver.wheel):
            return self.state == CANCELLED


@cython.internal
cdef class ContextTimer(Timer):
    cdef object context                 # or its variables; see contexts.pxd

    def __dealloc__(self):
        track_object(self.context)      # a released context must be tracked


cdef int release_timer(Timer self) except -1:
    """Drop all that an ended timer refers to, after the timer's own references are gone."""
    cdef object _function, _bound, _payload, _context = None
    cdef Driver _driver = None
    with critical_section(self.driver.wheel):
        _function, self.function = self.function, None
        _bound, self.bound = self.bound, None
        _payload, self.payload = self.payload, None
        if self.apart and self.shape == MANY_ARGUMENTS and Py_REFCNT(<PyObject *>_payload) > 1:
            track_object(_payload)      # another reference to it exists
        self.shape = NO_ARGUMENT
        if has_context(self):
            _context, (<ContextTimer>self).context = (<ContextTimer>self).context, None
            track_object(_context)
        if self.apart:                  # its holder may belong to the driver, unseen by the collector
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

    The later calls of a periodic timer count from `planned`.
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
        wake_for_moved(driver)
    return True


# ---- timers that are called again and again -------------------------------------------------------------------------

cdef enum:
    SKIP                                # as in _arguments
    BURST
    DELAY


@cython.internal
cdef class PeriodicTimer(ContextTimer):
    """A timer that repeats until it is cancelled."""
    cdef uint64_t planned               # nanoseconds on the clock: of the next call, jitter aside
    cdef int64_t jitter
    cdef int64_t lateness               # of the next call to be planned: drawn one call ahead
    cdef uint8_t missed
    cdef bint behind                    # the next call makes up for a missed one


cdef inline int draw(PeriodicTimer timer) except -1:
    if timer.jitter:
        try:
            timer.lateness = <int64_t>(<double>_random.random() * timer.jitter)
        except MemoryError:             # the last one serves again: the call that is planned already must not be lost
            pass
    return 0


cdef bint again(Driver self, PeriodicTimer timer, uint64_t now, bint *late) except -1:
    """Plan the next call of a timer that makes up for a missed one; False if it was cancelled or reset meanwhile."""
    cdef uint32_t index = 0
    cdef bint failed = False
    with critical_section(self.wheel):
        if timer.behind:
            index = node_of(timer)
            if index:
                failed = plan(self, timer, index, now)
                late[0] = timer.behind
    if failed:
        raise MemoryError
    if index:
        draw(timer)
    return index != 0


cdef bint plan(Driver self, PeriodicTimer timer, uint32_t index, uint64_t now) noexcept:
    """Move the timer to its next call, in a critical section. True, and nothing has changed, if memory is out."""
    cdef uint64_t planned = timer.planned + timer.delay, tick
    if timer.missed == DELAY:
        planned = now + timer.delay
    elif timer.missed == SKIP and now >= planned:
        planned += timer.delay * ((now - planned) // timer.delay + 1)
    tick = ticks_until(self, planned + timer.lateness)
    if wheel_move(&self.wheel.wheel, index, tick):
        return True
    timer.planned = planned
    timer.behind = tick <= self.wheel.wheel.now
    return False


# ---- what all drivers share -----------------------------------------------------------------------------------------

@cython.internal
cdef class TimerWheel(TimingWheel):
    """A wheel whose items are timers."""
    cdef uint8_t passes                 # of the collector, in which it may skip the timers; see below


cdef class Driver:
    """The common part of all drivers: it schedules timers, and runs the due ones when a subclass asks for it.

    Args:
        clock: a Clock; None for the system's monotonic one.
        tick: the resolution of deadlines, in seconds: a microsecond to an hour. Deadlines are rounded up to it.
        on_error: called as ``on_error(timer, exception)`` for an error in a callback; None to log it.
        max_pending: how many timers there may be before scheduling raises WheelFull; None for no limit.
    """
    cdef TimerWheel wheel
    cdef readonly int64_t _length       # of a tick, nanoseconds
    cdef double per_nanosecond          # ticks
    cdef bint system                    # whether the clock is the system's, and is read here
    cdef bint contexts                  # whether callbacks run in a copy of the context they were scheduled in
    cdef bint halted
    cdef object read
    cdef readonly object clock
    cdef public object on_error
    cdef unsigned long running          # the thread that runs a turn; 0 if none does
    cdef uint64_t wake_before
    cdef object __weakref__

    def __cinit__(self):
        self.wheel = TimerWheel()       # a subclass may omit our __init__
        set_clock(self, MonotonicClock(), 1_000_000)

    def __init__(self, clock=None, tick=0.001, *, on_error=None, max_pending=None, contexts=False):
        set_clock(self, monotonic_or(clock), tick_ns(tick))
        self.on_error = arguments.callable_or_none(on_error, "on_error")
        self.contexts = contexts
        self.halted = False
        cdef uint64_t start = ticks_by(self, now_ns(self))
        track_all(self.wheel)           # timers that were scheduled before another __init__
        self.wheel.__init__(start, max_pending=max_pending)

    @property
    def tick(self):
        """The resolution of deadlines, in seconds."""
        return self._length / 1e9

    @property
    def stopped(self):
        """Whether the driver was stopped."""
        with critical_section(self.wheel):
            return self.halted

    @property
    def _running(self):
        """The thread that runs a turn; 0 if none does."""
        with critical_section(self.wheel):
            return self.running

    @_running.setter
    def _running(self, unsigned long running):
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
        """Return the time of the driver's clock, in seconds."""
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
            TypeError: callback is not callable, delay is not a number, context is not a Context.
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
            jitter: each call comes up to this many seconds after its planned time, at random.
            missed: what happens to calls whose time passed while the driver could not run: "skip" drops them and goes
                on with the next planned time, "burst" makes up for each, "delay" counts anew from now.

        Returns:
            The timer; it is active until it is cancelled.

        Raises:
            TypeError, TimersStopped: as for `call_later`.
            ValueError: as for `call_later`, and for an interval that is not more than 0, or another `missed`.

        O(1).
        """
        cdef PeriodicTimer timer = PeriodicTimer.__new__(PeriodicTimer)
        cdef int64_t head
        timer.delay = arguments.interval(interval)
        set_call(timer, self, callback, args)
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
        """Return the pending timers, by deadline. O(n log n)."""
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
        """Return when to run timers next, in seconds on the clock, or None if no timer is pending. O(1).

        The time is not later than the first deadline. It may be earlier; a loop that then runs the due timers makes
        progress.
        """
        cdef uint64_t tick = next_tick(self)
        return None if tick == NEVER else tick * self._length / 1e9

    def __len__(self):
        """Return the number of pending timers. O(1)."""
        with critical_section(self.wheel):
            return self.wheel.wheel.live

    # ---- for the drivers --------------------------------------------------------------------------------------------

    def _sooner(self):
        """Wake up for a deadline before `_wake_before`. Called in the thread that schedules."""

    def _spawn(self, timer, coroutine, context):
        """Handle a coroutine that a callback returned. The callback ran in this context, or in none."""
        coroutine.close()
        raise TypeError("a callback must not be a coroutine function here: only AsyncTimers can await what it returns")

    def _report(self, timer, error):
        arguments.report(self.on_error, timer, error)

    def _now_ns(self):
        return now_ns(self)

    def _next_tick(self):
        """Return the tick at which to run timers next."""
        cdef uint64_t tick = next_tick(self)
        return None if tick == NEVER else tick

    def _run(self, limit=NEVER):
        """Run the due timers, at most `limit` callbacks; return how many ran.

        Timers that a callback schedules run in a later turn, even if they are due at once.
        """
        begin_turn(self)
        try:
            return turn(self, now_ns(self), limit, True)
        finally:
            end_turn(self)

    def _run_some(self, limit):
        """Run like `_run`, for drivers that must not pause; return whether more timers are due.

        One call collects some thousand timers at most, so it may have nothing to call yet.
        """
        cdef uint64_t most = limit, now
        begin_turn(self)
        try:
            now = now_ns(self)
            if turn(self, now, most, False) == most:
                return True
            with critical_section(self.wheel):      # if the clock went back, nothing is due
                return is_behind(&self.wheel.wheel) and self.wheel.wheel.now <= ticks_by(self, now)
        finally:
            end_turn(self)

    def _run_for_clock(self):
        """`_run`, for a clock that has a weak reference to the driver. Nothing if another thread runs it by now.

        The call is not a use of the driver for the garbage collector; see below.
        """
        cdef uint8_t passes = self.wheel.passes
        if not begins_turn(self):
            return 0
        try:
            return turn(self, now_ns(self), NEVER, True)
        finally:
            with critical_section(self.wheel):
                self.wheel.passes = passes
            end_turn(self)

    def _stop(self):
        """Refuse new timers from now on; return the pending ones, by deadline."""
        with critical_section(self.wheel):
            self.halted = True          # from here on none of the pending timers is called
        cdef list left = [timer for timer in self.pending() if halt(timer)]
        empty(self)
        return left

    @property
    def _touched(self):
        """The number of timers that collecting has moved in the wheel so far, or out of it. For tests."""
        with critical_section(self.wheel):
            return self.wheel.wheel.touched

    def _check(self):
        """Recompute every invariant of the wheel slowly; RuntimeError names a broken one. For tests. O(n)."""
        self.wheel._check()

    def _forget(self):
        """Drop all timers, for a forked child."""
        empty(self)


cdef int begin_turn(Driver self) except -1:
    if not begins_turn(self):
        raise arguments.reentered()
    return 0


cdef bint begins_turn(Driver self) noexcept:
    """Begin a turn, and return whether that was possible: only one turn runs at a time."""
    cdef bint free
    with critical_section(self.wheel):
        free = self.running == 0
        if free:                        # otherwise it might stay so: the running thread may be about to clear it
            self.running = PyThread_get_thread_ident()
    return free


cdef int end_turn(Driver self) except -1:
    with critical_section(self.wheel):
        if self.running == PyThread_get_thread_ident():
            self.running = 0
    return 0


cdef bint halt(Timer self) noexcept:
    """End a timer; return whether it was still pending."""
    cdef bint was
    with critical_section(self.driver.wheel):
        was = self.state == PENDING
        if was:
            self.state = STOPPED
    return was


cdef int empty(Driver self) except -1:
    """Take all timers out of the wheel: from here on they own their references."""
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


# ---- how a timer is made, and put into the wheel --------------------------------------------------------------------

cdef enum:
    HALTED = 1                          # reasons why a timer could not be put into the wheel
    FULL
    NO_MEMORY
    NOT_THERE                           # or moved: it has ended


cdef inline int set_context(ContextTimer timer, context) except -1:
    cdef PyObject *kept
    if context is not None:
        timer.context = arguments.context(context)
    elif timer.driver.contexts:
        kept = snapshot()
        timer.context = <object>kept
        Py_DECREF(kept)
        if timer.apart and not is_variables(kept):
            PyObject_GC_UnTrack(timer.context)
    return 0


cdef inline int set_call(Timer timer, Driver driver, callback, tuple args) except -1:
    if not PyCallable_Check(callback):
        arguments.callback(callback)
    cdef Py_ssize_t n = PyTuple_GET_SIZE(args)
    if HAS_GIL and driver.wheel.wheel.live >= TRACKED:
        set_apart(timer)
    timer.driver = driver
    if PyMethod_Check(callback):        # its parts, without the method: 64 bytes that the collector would visit
        timer.function = <object>PyMethod_GET_FUNCTION(callback)
        timer.bound = <object>PyMethod_GET_SELF(callback)
    else:
        timer.function = callback
    if n == 1:                          # without the tuple: 48 bytes of a timer's 170
        timer.payload = <object>PyTuple_GET_ITEM(args, 0)
        timer.shape = ONE_ARGUMENT
        timer.atom = not PyType_IS_GC(Py_TYPE(<PyObject *>timer.payload))
    elif n:
        timer.payload = args
        timer.shape = MANY_ARGUMENTS
        if timer.apart:
            PyObject_GC_UnTrack(args)   # it was made for this call
    return 0


cdef inline Timer new_timer(Driver self, callback, tuple args, context):
    cdef Timer timer
    if context is None and not self.contexts:
        timer = Timer.__new__(Timer)
        set_call(timer, self, callback, args)
    else:
        timer = ContextTimer.__new__(ContextTimer)
        set_call(timer, self, callback, args)
        set_context(<ContextTimer>timer, context)
    return timer


cdef inline Timer schedule(Driver self, Timer timer, uint64_t ns):
    cdef uint64_t tick = ticks_until(self, ns)
    cdef int problem
    with critical_section(self.wheel):
        problem = put(self, timer, tick)
    if problem:
        refuse(self, problem)
    if tick < read_shared(&self.wake_before):
        wake(self, timer)
    return timer


cdef inline int put(Driver self, Timer timer, uint64_t tick) noexcept:
    """Put a timer that is in no wheel into this driver's, in its critical section; return 0, or the problem."""
    cdef uint64_t handle
    if self.halted:
        return HALTED
    if self.wheel.wheel.live >= self.wheel.room:
        return FULL
    handle = wheel_schedule(&self.wheel.wheel, tick, <uintptr_t><PyObject *>timer)
    if handle == 0:
        return NO_MEMORY
    timer.index = index_in(&self.wheel.wheel.arena, handle)
    timer.state = PENDING
    self.wheel.passes = IN_USE
    Py_INCREF(timer)
    return 0


cdef int refuse(Driver self, int problem) except -1:
    if problem == HALTED:
        raise arguments.stopped(self)
    if problem == FULL:
        raise WheelFull("max_pending timers are pending: cancel some, or make a driver with a higher limit")
    raise MemoryError


cdef int wake(Driver self, Timer timer) except -1:
    """Wake the driver for a new timer. Take the timer back if that fails."""
    try:
        self._sooner()
    except BaseException:
        timer.cancel()
        raise
    return 0


cdef int wake_for_moved(Driver self) except -1:
    """Wake the driver for a timer that is due earlier now. An interrupt must not leave it asleep."""
    try:
        self._sooner()
    except BaseException:
        self._sooner()
        raise
    return 0


# ---- a turn: one timer after the other that is due is taken and called ----------------------------------------------

cdef enum:
    QUOTA = 4096                        # timers that each step of a bounded turn may move or collect
    LONGEST_TURN = 2_000_000            # nanoseconds: callbacks may be slow, and the last of many timers frees memory
    LOOKS = 8                           # callbacks between two looks at the time


cdef int64_t turn(Driver self, uint64_t now, uint64_t most, bint whole) except -1:
    """Run the due timers, at most `most` callbacks; return how many ran.

    If not `whole`, one quota is collected, and the turn ends when it has taken long.
    """
    cdef wheel_t *w = &self.wheel.wheel
    cdef uint64_t tick = ticks_by(self, now), done = 0
    cdef list behind = [], batch
    cdef Timer timer
    cdef int64_t end = INT64_MAX if whole else monotonic_ns() + LONGEST_TURN
    cdef int failed = 0
    cdef bint late
    with critical_section(self.wheel):
        self.wheel.passes = IN_USE
        if tick < w.now:                # the clock went back: the timers due by its new time have run
            most = 0
        else:
            failed = wheel_advance(w, tick, most) if whole else wheel_advance_some(w, tick, most, QUOTA)
    if failed:
        raise MemoryError
    while done < most and (done % LOOKS or monotonic_ns() < end):
        timer = next_due(self, now, most - done if whole else 0, &late)
        if timer is None:
            break
        done += call(self, timer)
        if late:                        # not earlier: without memory for that, its next turn finds it in the wheel
            behind.append(timer)
    if not whole and is_left(self):
        behind = []                     # their turn comes after the other timers; they are in the wheel
    while behind and done < most:       # one call each, until none has missed a call
        batch, behind = behind, []
        for timer in batch:
            if done < most and again(self, <PeriodicTimer>timer, now, &late):
                done += call(self, timer)
                if late:
                    behind.append(timer)
    return done


cdef bint is_left(Driver self) noexcept:
    """Whether a timer that was due when the wheel was last advanced is still to be called."""
    with critical_section(self.wheel):
        return is_behind(&self.wheel.wheel)


cdef Timer next_due(Driver self, uint64_t now, uint64_t most, bint *late):
    """Return the next due timer, out of the wheel unless it is periodic; None if there is no more.

    If no collected timer is left, collect `most`: callbacks may have cancelled or moved the timers that the limit
    chose. If `most` is 0, collect none and leave that to the next turn. Write to `late` whether a periodic timer has
    missed a call, for which it is to be called `again`.
    """
    cdef wheel_t *w = &self.wheel.wheel
    cdef uint64_t payload
    cdef uint32_t index
    cdef Timer timer = None
    cdef bint failed = False
    late[0] = False
    with critical_section(self.wheel):
        if self.halted or self.running != PyThread_get_thread_ident():  # the callback has forked this child
            return None
        if w.ready_live == 0 and most:
            failed = wheel_collect_more(w, most)
        while w.ready_begin < w.ready_end and w.ready[w.ready_begin] == 0:
            w.ready_begin += 1          # once for all: `behind` timers leave only gaps
        if w.ready_live:
            index = w.ready[w.ready_begin]
            timer = <Timer><PyObject *><uintptr_t>w.arena.nodes[index].payload
            if type(timer) is PeriodicTimer:
                failed = plan(self, <PeriodicTimer>timer, index, now)
                late[0] = (<PeriodicTimer>timer).behind
        if timer is None or type(timer) is not PeriodicTimer:
            if wheel_pop(w, &payload, 1):
                timer.state = RUNNING
                Py_DECREF(<PyObject *>timer)
    if failed:
        raise MemoryError
    if type(timer) is PeriodicTimer:
        draw(<PeriodicTimer>timer)
    return timer


# ---- how a callback is called, and what happens to what it returns or raises ----------------------------------------

cdef bint call(Driver self, Timer timer) except -1:
    """Call the timer's callback; release it unless the timer is called again. Return False if it was cancelled."""
    cdef object function, bound, payload, context = None
    cdef PyObject *result = NULL
    cdef PyObject *made
    cdef uint8_t shape
    with critical_section(self.wheel):
        function, bound, payload, shape = timer.function, timer.bound, timer.payload, timer.shape
        if has_context(timer):
            context = (<ContextTimer>timer).context
    if function is None:                # cancelled in this moment by another thread
        return False
    if context is not None and is_variables(<PyObject *>context):
        made = new_context(<PyObject *>context)
        if made != NULL:
            context = use_context(<ContextTimer>timer, context, made)
    if context is None or (not is_variables(<PyObject *>context) and enter_context(context) == 0):
        if shape == MANY_ARGUMENTS:
            result = call_many(function, bound, payload)
        else:
            result = call_one(function, bound, payload, shape)
        if context is not None:
            leave_context(context)
    if result != <PyObject *>None:
        handle_result(self, timer, result, context)
    else:
        Py_DECREF(result)
    finish(self, timer)
    return True


cdef inline object use_context(ContextTimer timer, object variables, PyObject *made):
    """Return a context made from a timer's variables. The timer keeps it: its callback may have it called again."""
    cdef object context = <object>made
    Py_DECREF(made)
    with critical_section(timer.driver.wheel):
        if timer.context is variables:          # otherwise it was released meanwhile
            timer.context = context
    return context


cdef inline int enter_context(context) noexcept:
    """Enter a context, which code can reach from here on: the collector has to know it. -1: an error is set."""
    track_object(context)
    return PyContext_Enter(context)


cdef int handle_result(Driver self, Timer timer, PyObject *result, context) except -1:
    """Handle a callback's result, or its error if the result is NULL."""
    try:
        if result == NULL:
            throw()
        value = <object>result
        Py_DECREF(result)
        if isinstance(value, CoroutineType):
            self._spawn(timer, value, context)
    except (KeyboardInterrupt, SystemExit):
        finish(self, timer)
        raise
    except BaseException as error:
        try:
            self._report(timer, error)
        except BaseException:
            finish(self, timer)
            raise
    return 0


cdef int throw() except -1:
    """Raise the error that is set."""
    return -1


cdef int leave_context(context) except -1:
    """Leave a context, with or without an error set."""
    return PyContext_Exit(context)


cdef int finish(Driver self, Timer timer) except -1:
    """Release a timer that has run and is not called again."""
    cdef bint over
    with critical_section(self.wheel):
        over = timer.state == RUNNING
        if over:
            timer.state = FIRED
    return release_timer(timer) if over else 0


# ---- what the garbage collector sees of pending timers --------------------------------------------------------------

# A collection looks at every object it knows, and a hundred thousand pending timers would pause the program for tens of
# milliseconds. So a driver with many of them has its further ones *apart*: the collector does not know them, nor the
# tuple of arguments and the copy of the context that were made for them. The wheel visits their references in their
# place, if the wheel's reference to the timer is the only one. For a timer with other references it does not: to the
# collector that looks like a reference from outside, so everything stays alive. The same holds for a tuple or a
# context: code that runs in the midst of a call can get a reference to one, and the contexts of an EventLoop's timers,
# which the collector does not know either, can be given to a timer. A timer is apart until it ends; timers that leave
# the wheel otherwise become ordinary objects.
#
# Even that would take tens of milliseconds for a million of them, only to find that a driver at work is not garbage. So
# the two passes of the first collection after a use of the driver see none of its timers, which again keeps everything
# alive. Garbage is not used, and the next collection finds it. A run by a clock that does not hold the driver does not
# count as a use. The first pass of a collection must never visit more than the second one; between the two passes no
# code uses a driver.
#
# Without a GIL there are no such timers: another thread might take a reference to one unnoticed.

cdef enum:
    TRACKED = 1000                      # pending timers of a driver that are ordinary objects for the collector
    IN_USE = 2                          # passes of one collection


cdef inline int set_apart(Timer self) noexcept:
    """Hide a new timer from the collector."""
    PyObject_GC_UnTrack(self)
    self.apart = True
    return 0


cdef int track(Timer self) noexcept:
    """Make a timer, and its own tuple and context, ordinary objects for the collector."""
    if self.apart:
        self.apart = False
        if self.shape == MANY_ARGUMENTS:
            track_object(self.payload)
        if has_context(self):
            track_object((<ContextTimer>self).context)
        PyObject_GC_Track(self)
    return 0


cdef int track_all(TimerWheel self) noexcept:
    """Make all pending timers ordinary objects, before they leave the wheel."""
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
    """Visit an object; or its references, if the collector does not know it and only the timer has it."""
    if PyObject_GC_IsTracked(value):
        return visit(value, arg)
    return Py_TYPE(value).tp_traverse(value, visit, arg) if Py_REFCNT(value) == 1 else 0


cdef inline int traverse_apart(PyObject *self, visitproc visit, void *arg) noexcept:
    """Visit the references of a timer to which only the wheel refers. Without an assignment, which would count."""
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


# Cython's tp_clear would put None where the code relies on a driver and a wheel, while finalisers may still call.

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
