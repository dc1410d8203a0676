"""`timeout` and `timeout_at` as asyncio has them, native: on the wheel of an EventLoop, or on any loop's timers."""

# The order of events, and the exceptions, are asyncio's. There, entering and leaving take a coroutine each. Here an
# object enters when it is awaited, and leaving is done before it is awaited.
#
# A Timeout and its timer refer to each other. The timer drops its reference when it is cancelled or has run. After the
# block a Timeout has no reference to its timer or its task.
#
# A Timeout belongs to one task. With the critical sections, a misuse from other threads has the same effect on a
# free-threaded Python as under the GIL: no harm to memory.

cimport cython

from asyncio import events, exceptions, tasks, timeouts
from contextvars import Context
from os import register_at_fork
from types import FunctionType
from weakref import WeakValueDictionary

from cpython.object cimport PyObject
from cython cimport critical_section
from libc.math cimport INFINITY, ceil, nextafter
from libc.stdint cimport uint32_t, uint64_t, uintptr_t

from pywheel.core._wheel cimport TimingWheel
from pywheel.core.advance cimport has_overdue, is_behind, next_occupied, wheel_advance_some, wheel_pop
from pywheel.core.arena cimport arena_find
from pywheel.core.bits cimport DIGIT_BITS, HAS_GIL, SLOT_MASK, unlikely
from pywheel.core.levels cimport NEVER, wheel_t
from pywheel.core.schedule cimport wheel_remove, wheel_schedule
from pywheel.timers._event_loop import StockLoop

from pywheel.timers._loop cimport cancel_timer, is_plain_wheel, wheel_time, wheel_timer
from pywheel.timers.clock cimport first_ns
from pywheel.timers.versions cimport has_method, version_of

cdef extern from *:
    """
    /* Cython's own `raise` makes an instance and a traceback, which are not needed. */
    typedef PyObject *(*pywheel_next)(PyObject *);
    #define pywheel_set_next(type, function) (((PyTypeObject *)(type))->tp_iternext = (pywheel_next)(function))

    /* Where an awaitable has this slot, CPython 3.11 takes the result from it, without an exception. */
    #define pywheel_set_send(type, function) \
        (((PyTypeObject *)(type))->tp_as_async->am_send = (sendfunc)(function))
    """
    void set_next "pywheel_set_next"(object type, void *function)
    void set_send "pywheel_set_send"(object type, void *function)

cdef extern from "Python.h":
    ctypedef int (*inquiry)(PyObject *) noexcept
    ctypedef struct PyTypeObject:
        inquiry tp_clear
    PyObject *Py_None
    PyTypeObject *Py_TYPE(PyObject *value)
    void Py_DECREF(PyObject *value)
    void Py_INCREF(PyObject *value)
    object PyContext_CopyCurrent()
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1
    PyObject *PyThreadState_GetDict() except? NULL
    object PyWeakref_NewRef(object value, PyObject *callback)
    PyObject *PyExc_StopIteration
    PyObject *PyDict_GetItemWithError(object items, object key) except? NULL
    bint PyFloat_CheckExact(object value)
    double PyFloat_AS_DOUBLE(object value)
    double PyFloat_AsDouble(object value) except? -1
    bint PyLong_CheckExact(object value)
    void PyErr_SetObject(PyObject *type, object value)
    PyObject *Py_NewRef(object value)
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR

cdef enum:
    CREATED
    ENTERED
    EXPIRING                            # the task has been cancelled, and is still in the block
    EXPIRED
    EXITED

cdef tuple NAMES = ("created", "active", "expiring", "expired", "finished")

cdef object CancelledError = exceptions.CancelledError
# From Python 3.13 on, any other exception that leaves the block names the expiry in its context.
cdef object insert_timeout_error = getattr(timeouts.Timeout, "_insert_timeout_error", None)

cdef class Timeout


# ---- the running loop and task --------------------------------------------------------------------------------------

# The running loop of this thread, and its task. Where asyncio answers slowly, its records are read.

cdef extern from *:
    """
    /* asyncio's record of the running loop, in the dict of a thread's state. Up to Python 3.11 asyncio asks the system
       at each look whether it is in a forked child; later it forgets the record in the child. */
    #if PY_VERSION_HEX < 0x030C0000 && !defined(MS_WINDOWS)
      #include <unistd.h>
      #define PYWHEEL_HAS_RECORDS 1
      typedef struct {
          PyObject_HEAD
          PyObject *loop;
          pid_t process;
      } pywheel_record;
    #else
      #define PYWHEEL_HAS_RECORDS 0
      typedef struct {
          PyObject_HEAD
          PyObject *loop;
          long process;
      } pywheel_record;
      #define getpid() 0L
    #endif
    """
    const bint HAS_RECORDS "PYWHEEL_HAS_RECORDS"
    ctypedef struct record_t "pywheel_record":
        PyObject *loop
        long process
    long getpid()

cdef object find_loop = events.get_running_loop
cdef object find_task = tasks.current_task
# Up to Python 3.11 that is a function in Python, which looks here.
cdef dict current_tasks = tasks._current_tasks if type(find_task) is FunctionType else None

cdef PyTypeObject *RECORD = NULL        # the type of records, once one was found to match `record_t`
cdef long process = 0                   # this one


cdef object running_loop():
    """Return or raise the same as asyncio.get_running_loop."""
    cdef PyObject *found = running_record()
    if found != NULL and Py_TYPE(found) == RECORD and (<record_t *>found).process == process:
        if (<record_t *>found).loop != Py_None:
            return <object>(<record_t *>found).loop
    return find_loop() if found == NULL or RECORD != NULL else see_record(<object>found)


cdef inline PyObject *running_record() except? NULL:
    cdef PyObject *states = PyThreadState_GetDict() if HAS_RECORDS else NULL
    return NULL if states == NULL else PyDict_GetItemWithError(<object>states, "__asyncio_running_event_loop__")


cdef object see_record(object record):
    """Check whether a record matches `record_t`; return or raise the same as asyncio.get_running_loop."""
    global RECORD, process
    loop = find_loop()
    if type(record).__basicsize__ == sizeof(record_t) and (<record_t *>record).loop == <PyObject *>loop:
        if (<record_t *>record).process == getpid():
            _note_process()
            RECORD = Py_TYPE(<PyObject *>record)
    return loop


def _note_process():
    global process
    process = getpid()


if HAS_RECORDS:
    register_at_fork(after_in_child=_note_process)


cdef inline object current_task(object loop):
    cdef PyObject *found
    if current_tasks is None:
        return find_task(loop)
    found = PyDict_GetItemWithError(current_tasks, loop)
    return None if found == NULL else <object>found


# ---- loops whose timers are known -----------------------------------------------------------------------------------

# Foreign loops with known timers: asyncio's own and uvloop's, unchanged. A subclass does not count as known, nor does a
# loop whose `time` or `call_at` was replaced, in the class or in the loop.


@cython.final
@cython.internal
cdef class KnownClass:
    """A class of loops."""
    cdef object loops                   # the class
    cdef list methods                   # its original methods that timers need
    cdef unsigned int version           # of the class, at the last look at that
    cdef bint unchanged                 # whether the class is as it was made
    cdef bint milliseconds              # whether its timers count in whole milliseconds, and may come up to one early

    cdef int look(self, object loop) except -1:
        """Check whether the class was changed."""
        self.unchanged = methods_of(self.loops) == self.methods
        self.version = version_of(loop)
        return 0


cdef KnownClass known_class(loops, list methods, bint milliseconds):
    cdef KnownClass made = KnownClass.__new__(KnownClass)
    made.loops, made.methods, made.milliseconds = loops, methods, milliseconds
    return made


cdef list methods_of(loops):
    return [getattr(loops, name) for name in ("time", "call_at", "call_later", "call_soon")]


cdef KnownClass of_asyncio = known_class(StockLoop, methods_of(StockLoop), False)
cdef KnownClass of_uvloop = None        # until there is such a loop


cdef inline KnownClass known(object loop):
    """The known class of a loop, or None."""
    cdef KnownClass found
    if type(loop) is of_asyncio.loops:
        found = of_asyncio
    else:
        found = known_of_uvloop(type(loop))
        if found is None:
            return None
    if unlikely(version_of(loop) != found.version or found.version == 0):
        found.look(loop)
    return found if found.unchanged and has_method(loop, "time") and has_method(loop, "call_at") else None


cdef inline KnownClass known_of_uvloop(loops):
    global of_uvloop
    if of_uvloop is None and loops.__module__ == "uvloop" and loops.__name__ == "Loop":
        of_uvloop = known_class(loops, methods_of(loops.__base__), True)     # written in C: it cannot be changed
    return of_uvloop if of_uvloop is not None and loops is of_uvloop.loops else None


cdef inline bint is_debugged(KnownClass known, object loop) except -1:
    """loop.get_debug()"""
    return loop.get_debug() if known.milliseconds else loop._debug


# ---- the wheel of a loop that is not ours ---------------------------------------------------------------------------

# The timeouts on a foreign loop are on a wheel, for which the loop has one timer: the alarm. Only an earlier deadline
# needs another alarm. An alarm whose timeout has ended in time wakes the loop once for nothing.
#
# The loop owns the alarm until it calls it, is closed or is gone. The alarm owns the wheel, and the wheel its timeouts.
# The references back are weak, so that nothing lives longer than its loop.
#
# A tick is a nanosecond: the first at which the loop's time, a float of seconds, has reached the deadline.
#
# asyncio looks for due timers at the beginning of a turn, and a task that is ready by then goes first. An alarm, later
# in that turn, only knows that its own time had come by then. Timeouts that came due since wait for an alarm of the
# next turn.

cdef enum:
    FEW = 16                            # timeouts that are checked one by one for the earliest
    LIMIT = 1000                        # timeouts that one turn of the loop ends
    QUOTA = 4096                        # timeouts that one turn may move in the wheel, or collect

cdef double LAST = 2.0 ** 32            # seconds; later deadlines are left to the loop
cdef double MILLISECOND = 0.001

cdef PyObject *recent = NULL            # the wheel that was used last; borrowed, until it goes
cdef object wheels = WeakValueDictionary()      # by the id of the loop


@cython.final
@cython.internal
cdef class TimeoutWheel(TimingWheel):
    """The timeouts on a loop."""
    cdef object loop                    # a weak reference
    cdef KnownClass known               # of its class
    cdef uint64_t wake_before           # the tick of the alarm: an earlier deadline needs another one
    cdef PyObject *alarm                # borrowed, until it goes; NULL without one
    cdef object handle                  # a weak reference to the loop's handle of the alarm

    def __dealloc__(self):
        global recent
        if recent == <PyObject *>self:
            recent = NULL


@cython.final
@cython.internal
cdef class Alarm:
    """The object that the loop calls. If the loop drops it without a call, after an interrupt or a cancelled handle,
    there is another one in the next turn."""
    cdef TimeoutWheel wheel

    def __call__(self):
        wake(self.wheel)

    def __dealloc__(self):
        if self.wheel is not None and self.wheel.alarm == <PyObject *>self:
            disown(self.wheel)
            wake_soon(self.wheel)


# Weak references need no clearing, and `recent` may be asked for its loop as long as it lives.
(<PyTypeObject *>TimeoutWheel).tp_clear = (<PyTypeObject *>TimingWheel).tp_clear


cdef inline TimeoutWheel wheel_of(object loop, KnownClass known, double now):
    """The wheel of a loop."""
    global recent
    cdef TimeoutWheel wheel
    loop_ref = PyWeakref_NewRef(loop, NULL)         # the same object for all callers
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
    """Put a timeout onto the wheel of its loop; False if the loop, or the time, does not allow it."""
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
    """Have the loop call for the earliest deadline. The old alarm goes after that: an interrupt leaves one of them."""
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
    """Have no alarm until the loop is asked for one: each new timeout asks."""
    self.alarm, self.wake_before = NULL, NEVER
    return 0


cdef int wake_soon(TimeoutWheel self) except -1:
    """Have the loop call in its next turn, unless there will be none."""
    cdef Alarm alarm
    loop = self.loop()
    if loop is not None and self.wheel.live and not loop.is_closed():
        alarm = Alarm.__new__(Alarm)
        alarm.wheel = self
        self.handle = PyWeakref_NewRef(loop.call_soon(alarm, context=Context()), NULL)
        self.alarm, self.wake_before = <PyObject *>alarm, self.wheel.now
    return 0


cdef object ask(TimeoutWheel self, object loop, Alarm alarm, double when, double now):
    """Ask the loop for a call at `when`, or in its next turn. It has its own context: the caller's would live on."""
    if not self.known.milliseconds:
        return loop.call_at(when, alarm, context=Context())
    if when <= now:
        return loop.call_soon(alarm, context=Context())
    return loop.call_later(ceil((when - now) / MILLISECOND) * MILLISECOND, alarm, context=Context())


cdef uint64_t earliest(TimeoutWheel self) noexcept:
    """The tick of the next look: at or before the earliest deadline; NEVER without timeouts. O(levels)."""
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
    """The earliest deadline in an occupied slot; the start of the slot if it has more than a few timeouts."""
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
    """Cancel the tasks whose time is up, and set another alarm, even after an error."""
    loop = self.loop()
    try:
        try:
            cancel_due(self, loop)
        finally:
            set_alarm(self, loop)
    except BaseException:
        set_alarm(self, loop)           # the first call may have been interrupted
        raise
    return 0


cdef int cancel_due(TimeoutWheel self, object loop) except -1:
    """Cancel the tasks whose time is up, up to a limit that keeps the turn short."""
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
    """Take a due timeout off the wheel; None if there is none."""
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
    if context is None:                 # another thread has just taken it off
        return 0
    PyContext_Enter(context)
    try:
        return timeout.expire()
    finally:
        PyContext_Exit(context)


# ---- the timeout ----------------------------------------------------------------------------------------------------

@cython.final
@cython.freelist(16)
@cython.trashcan(True)                  # a deadline may be any object: a chain of them is released in a bounded depth
cdef class Timeout:
    """A timeout for the code in an ``async with`` block. `timeout` and `timeout_at` make it.

    Args:
        when: the time of the loop at which the task is cancelled, None for never.
    """
    cdef object deadline
    cdef object handle                  # of the loop's timer; None without one
    cdef TimeoutWheel wheel             # with its timer instead, or None,
    cdef uint64_t timer                 # the wheel's handle,
    cdef object context                 # and the context of its call
    cdef object task
    cdef object cancelling              # number of requests to cancel the task before the block
    cdef int state
    cdef object __weakref__

    def __init__(self, when):
        self.deadline = when
        self.state = CREATED

    def __reduce__(self):
        raise TypeError("cannot copy or pickle a timeout")      # the wheel refers to one of them

    @cython.critical_section
    def when(self):
        """Return the time at which the task is cancelled, None for never."""
        return self.deadline

    @cython.critical_section
    def reschedule(self, when):
        """Set another time, None for never. A past time takes effect at the next turn of the loop.

        Raises:
            RuntimeError: the block has not been entered, time was up, or the block is over.
        """
        if self.state == CREATED:
            raise RuntimeError("Timeout has not been entered")
        if self.state != ENTERED:
            raise RuntimeError(f"Cannot change state of {NAMES[self.state]} Timeout")
        self.deadline = when
        self.disarm()
        if when is not None:
            self.arm(running_loop())

    def expired(self):
        """Return whether time was up."""
        return self.state == EXPIRING or self.state == EXPIRED

    @cython.critical_section
    def __repr__(self):
        when = ""
        if self.state == ENTERED:
            when = f" when={None if self.deadline is None else round(self.deadline, 3)}"
        return f"<Timeout [{NAMES[self.state]}]{when}>"

    def __aenter__(self):
        cdef Entering entering = Entering.__new__(Entering)
        entering.timeout = self
        return entering

    @cython.critical_section
    def __aexit__(self, exc_type, exc_val, exc_tb):
        assert self.state == ENTERED or self.state == EXPIRING
        task, self.task = self.task, None
        if self.state == ENTERED:
            self.state = EXITED         # first: an interrupt may leave the loop its timer
            self.disarm()
            return OVER
        self.state = EXPIRED
        if task.uncancel() <= self.cancelling and exc_type is not None:
            # This is the only request for the cancellation, so it ends here.
            convert(exc_type, exc_val)
        return OVER

    @cython.critical_section
    cdef int enter(self) except -1:
        if self.state != CREATED:
            raise RuntimeError("Timeout has already been entered")
        loop = running_loop()
        task = current_task(loop)
        if task is None:
            raise RuntimeError("Timeout should be used inside a task")
        self.task = task
        self.cancelling = task.cancelling()
        if self.deadline is not None:
            self.arm(loop)
        self.state = ENTERED            # last: an interrupt before leaves nobody to leave the block
        return 0

    cdef int arm(self, object loop) except -1:
        """Start the timer."""
        cdef double due
        if PyFloat_CheckExact(self.deadline):
            due = PyFloat_AS_DOUBLE(self.deadline)
            if not is_plain_wheel(loop):
                if start(self, loop, due):
                    return 0
            elif due > wheel_time(loop):
                self.handle = wheel_timer(loop, self.deadline, due, expire, (self,))
                return 0
        if self.deadline <= loop.time():
            self.handle = loop.call_soon(expire, self)
        else:
            self.handle = loop.call_at(self.deadline, expire, self)
        return 0

    cdef int disarm(self) except -1:
        handle, self.handle = self.handle, None
        if self.wheel is not None:
            stop(self)
        elif handle is not None:
            cancel_timer(handle)
        return 0

    @cython.critical_section
    cdef int expire(self) except -1:
        """Cancel the task, because time is up."""
        if self.state != ENTERED:       # an interrupt lost the handle of this timer
            return 0
        self.task.cancel()
        self.state = EXPIRING
        self.handle = self.wheel = self.context = None
        return 0


def _expire(Timeout timeout not None):
    timeout.expire()


cdef object expire = _expire


cdef int convert(exc_type, exc_val) except -1:
    """Make a TimeoutError of the cancellation, which is the timeout's own."""
    if insert_timeout_error is None:
        if exc_type is CancelledError:
            raise TimeoutError from exc_val
    elif issubclass(exc_type, CancelledError):
        raise TimeoutError from exc_val
    elif exc_val is not None:
        insert_timeout_error(exc_val)
        if isinstance(exc_val, ExceptionGroup):
            for error in exc_val.exceptions:
                insert_timeout_error(error)
    return 0


# ---- what is awaited ------------------------------------------------------------------------------------------------

@cython.final
@cython.internal
@cython.freelist(16)
cdef class Entering:
    """Enters the block when it is awaited; the result is the Timeout."""
    cdef Timeout timeout

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        """For calls by name; `next` calls the function below."""
        enter(self.timeout)
        raise StopIteration(self.timeout)


@cython.final
@cython.internal
cdef class Over:
    """An awaitable with nothing left to do."""

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration


cdef Over OVER = Over()

ctypedef int (*enter_t)(Timeout timeout) noexcept     # the caller checks the result itself


cdef int enter(Timeout timeout) except -1:
    if timeout is None:                 # its type was called: only `__aenter__` fills it in
        raise TypeError("cannot create 'Entering' instances")
    return timeout.enter()


cdef PyObject *enter_next(Entering self) noexcept:
    cdef Timeout timeout = self.timeout
    if (<enter_t>enter)(timeout) == 0:
        PyErr_SetObject(PyExc_StopIteration, timeout)
    return NULL


cdef PySendResult enter_send(Entering self, PyObject *value, PyObject **result) noexcept:
    cdef Timeout timeout = self.timeout
    result[0] = NULL
    if (<enter_t>enter)(timeout) < 0:
        return PYGEN_ERROR
    result[0] = Py_NewRef(timeout)
    return PYGEN_RETURN


set_next(Entering, <void *>enter_next)
set_send(Entering, <void *>enter_send)


# ---- making them ----------------------------------------------------------------------------------------------------

cdef inline Timeout new_timeout(object when):
    cdef Timeout made = Timeout.__new__(Timeout)
    made.deadline = when
    return made


def timeout(delay):
    """Limit the code in an ``async with`` block to `delay` seconds, like asyncio.timeout.

        async with pywheel.timeout(10):
            await long_running_task()

    When time is up, the task is cancelled, and the block raises TimeoutError. None means no limit.

    Raises:
        RuntimeError: no loop is running.
    """
    loop = running_loop()
    if delay is None:
        return new_timeout(None)
    if PyFloat_CheckExact(delay) or PyLong_CheckExact(delay):
        if is_plain_wheel(loop):
            return new_timeout(wheel_time(loop) + PyFloat_AsDouble(delay))
    return new_timeout(loop.time() + delay)


def timeout_at(when):
    """Limit the code in an ``async with`` block to the loop's time `when`, like asyncio.timeout_at.

    When time is up, the task is cancelled, and the block raises TimeoutError. None means no limit.
    """
    return new_timeout(when)
