# A turn of the loop: it waits for files and timers, and runs what is ready by then.

cdef extern from *:
    """
    #if defined(__linux__)
      #include <sys/epoll.h>
      /* Whether nothing can be read or written. It does not wait, so the GIL is kept. */
      static CYTHON_INLINE int pywheel_is_quiet(int epoll) {
          struct epoll_event event;
          return epoll_wait(epoll, &event, 1, 0) == 0;
      }
    #else
      #define pywheel_is_quiet(epoll) 0
    #endif
    """
    bint is_quiet "pywheel_is_quiet"(int epoll)

cdef enum:
    CHUNK = 256                         # timers on their way from the wheel to the loop
    FEW = 16                            # timers that are looked at one by one for the earliest
    QUOTA = 4096                        # timers that each step of a turn may move in the wheel, or collect

cdef double LONGEST_WAIT = base_events.MAXIMUM_SELECT_TIMEOUT
cdef object Handle = events.Handle
cdef object stock_run = events.Handle._run


cdef int turn(WheelScheduling self) except -1:
    """Run one turn: wait for files and timers, then run what is ready by then."""
    ready = self._ready
    if self.shown is not None:
        self.take_popped()
    happened = poll(self, ready)
    if happened is not None:
        self._process_events(happened)
        happened = None                 # or a cycle, if a callback raises
    collect(self)
    popleft = ready.popleft
    cdef Py_ssize_t _i
    cdef bint as_ever = Handle._run is stock_run and not self._debug
    for _i in range(len(ready)):
        handle = popleft()
        if as_ever and (Py_TYPE(<PyObject *>handle) == TIMER_HANDLE or Py_TYPE(<PyObject *>handle) == HANDLE):
            run(<PyObject *>handle)
        else:
            if Py_TYPE(<PyObject *>handle) == TIMER_HANDLE:
                watch(<PyObject *>handle)
            if handle._cancelled:
                pass
            elif self._debug:
                run_slowly(self, handle)
            else:
                handle._run()
    handle = None
    return 0


cdef object poll(WheelScheduling self, ready):
    """Wait, and return the selector's events; None if there are none, and that took no wait to see."""
    if len(ready) or self._stopping:
        timeout = 0
    else:
        timeout = seconds_to_wait(self)
    if timeout == 0 and self.epoll >= 0 and is_quiet(self.epoll):
        return None
    return self._selector.select(timeout)


cdef object seconds_to_wait(WheelScheduling self):
    """How many seconds to wait if nothing is ready; None for ever."""
    cdef double when = earliest(self)
    if when == INFINITY:
        return None
    when -= self.now()
    return 0 if when <= 0 else min(when, LONGEST_WAIT)


cdef double earliest(WheelScheduling self) noexcept:
    """The time to look again: at or before the earliest `when`; infinity without timers. O(levels)."""
    cdef wheel_t *w = &self.timers.wheel
    cdef double found
    cdef uint32_t rest
    cdef uint64_t number
    cdef int l
    with critical_section(self.timers):
        if w.live == 0:
            return INFINITY
        if is_behind(w):
            return -INFINITY
        found, rest = self.early, w.in_use
        while next_occupied(w, &rest, &l, &number):
            found = min(found, earliest_of(self, l, number))
    return found


cdef double earliest_of(WheelScheduling self, int level, uint64_t number) noexcept:
    """The earliest `when` in an occupied slot, or, of more than a few, the time at which it begins."""
    cdef wheel_t *w = &self.timers.wheel
    cdef uint32_t slot = <uint32_t>number & SLOT_MASK, index
    cdef double found = INFINITY
    cdef int i
    if w.level[level].weight[slot] > FEW:
        return <double>(number << DIGIT_BITS * level) / TICKS_PER_SECOND
    for i in range(1 << w.list_bits):
        index = w.level[level].heads[(slot << w.list_bits) + i]
        while index:
            found = min(found, fields(<PyObject *><uintptr_t>w.arena.nodes[index].payload).due)
            index = w.arena.nodes[index].next
    return found


cdef int collect(WheelScheduling self) except -1:
    """Move what is due from the wheel to `_ready`, at most `limit` timers. It may take more turns to find them."""
    cdef wheel_t *w = &self.timers.wheel
    cdef double now = self.now()
    cdef uint64_t left = self.limit, room, n, too_soon = 0
    cdef list due
    with critical_section(self.timers):
        if not must_wait(w, left):      # else those whose `when` it is stay where they are
            self.early = INFINITY
        wheel_advance_some(w, max(tick_of(now), w.now), left, QUOTA)    # without memory it goes on next turn
    while left and too_soon < QUOTA:
        with critical_section(self.timers):
            room = min(min(left, w.ready_live), <uint64_t>CHUNK)
        if room == 0:
            break
        due = PyList_New(room)          # before any is taken off the wheel: without memory, nothing is lost
        n = take(self, due, room, now)
        left -= n
        too_soon += room - n
        hand_over(self, due)
    return 0


cdef uint64_t take(WheelScheduling self, list due, uint64_t room, double now):
    """Take up to so many collected timers off the wheel, put into `due` those that are, and return how many."""
    cdef uint64_t[CHUNK] chunk
    cdef uint64_t got, i, n = 0
    cdef PyObject *handle
    with critical_section(self.timers):
        got = wheel_pop(&self.timers.wheel, chunk, room)
    for i in range(got):
        handle = <PyObject *><uintptr_t>chunk[i]
        if fields(handle).due <= now or place(self, handle):
            Py_XDECREF(replace(handle, SCHEDULED, Py_False))
            PyList_SET_ITEM(due, n, handle)     # with the wheel's reference
            n += 1
        else:
            Py_DECREF(handle)
    Py_SET_SIZE(due, n)
    return n


cdef int hand_over(WheelScheduling self, list due) except -1:
    """Put timers into `_ready`; without memory, back on the wheel."""
    cdef Py_ssize_t i, before = len(self._ready)
    try:
        self._ready.extend(due)
    except BaseException:
        for i in range(len(self._ready) - before, len(due)):
            handle = due[i]
            place(self, <PyObject *>handle)
        raise
    return 0


cdef int run_slowly(WheelScheduling self, handle) except -1:
    """Run a handle in debug mode, and say so if it takes long."""
    try:
        self._current_handle = handle
        start = self.time()
        handle._run()
        took = self.time() - start
        if took >= self.slow_callback_duration:
            base_events.logger.warning("Executing %s took %.3f seconds", base_events._format_handle(handle), took)
    finally:
        self._current_handle = None
    return 0
