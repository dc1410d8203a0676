# How a timer is made of a callback and its arguments, and put into the wheel.

cdef enum:
    HALTED = 1                          # why a timer could not be put into the wheel
    FULL
    NO_MEMORY
    NOT_THERE                           # or moved: it has ended


cdef inline int set_context(ContextTimer timer, context) except -1:
    if context is not None:
        timer.context = arguments.context(context)
    elif timer.driver.contexts:
        timer.context = PyContext_CopyCurrent()
        if timer.apart:
            PyObject_GC_UnTrack(timer.context)
    return 0


cdef inline int fill(Timer timer, Driver driver, callback, tuple args) except -1:
    if not PyCallable_Check(callback):
        arguments.callback(callback)
    cdef Py_ssize_t n = PyTuple_GET_SIZE(args)
    if HAS_GIL and driver.wheel.wheel.live >= TRACKED:
        set_apart(timer)
    timer.driver = driver
    if PyMethod_Check(callback):        # its parts, of which no more are made: 64 bytes that the collector would visit
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
        fill(timer, self, callback, args)
    else:
        timer = ContextTimer.__new__(ContextTimer)
        fill(timer, self, callback, args)
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
    """Wake the driver for a new timer, which is taken back if nobody wakes."""
    try:
        self._sooner()
    except BaseException:
        timer.cancel()
        raise
    return 0
