# The wheel of objects.


@cython.trashcan(True)
cdef class TimingWheel(_Wheel):
    """TimingWheel(start=0, *, max_pending=None)\n--\n
    A hierarchical timing wheel: timers on integer ticks, each with any object as its item.

    It has no clock and calls nothing: `advance` returns the items that expired. Safe to call from several threads.

    Args:
        start: the tick it stands at, 0 .. 2**63-1.
        max_pending: how many timers it may hold before `schedule` raises WheelFull; None for no limit.

    Attributes:
        now: the tick last advanced to.
        max_pending: as given.
    """

    def schedule(self, deadline, item=None, /):
        """Add a timer and return its handle.

        Args:
            deadline: absolute tick, 0 .. 2**63-1; at or before `now` it expires at the next advance.
            item: what `advance` returns for it.

        Returns:
            An int that stands for this timer, and never for another one of this wheel.

        Raises:
            TypeError: deadline is not an int.
            OverflowError: deadline is out of range.
            WheelFull: `max_pending` timers are pending, or as many as a wheel can hold, 2**31-1 at most.
            MemoryError: every other timer is still there.

        O(1).
        """
        cdef uint64_t tick = as_tick(deadline, "deadline")
        cdef uint64_t handle = 0
        cdef bint full, no_index = False
        with critical_section(self):
            full = self.wheel.live >= self.room
            if not full:
                handle = wheel_schedule(&self.wheel, tick, <uintptr_t><PyObject *>item)
                if handle:
                    Py_INCREF(item)
                else:
                    no_index = indices_are_out(&self.wheel.arena, 1)
        if unlikely(handle == 0):
            raise refusal(full, no_index)
        return as_int(self, handle)

    def cancel(self, handle, /):
        """Remove a timer and release its item before returning.

        Returns:
            True, or False if the timer expired or was cancelled already, or the handle is not of this wheel.

        Raises:
            TypeError: handle is not an int.

        O(1).
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint32_t index
        cdef PyObject *item
        with critical_section(self):
            index = arena_find(&self.wheel.arena, number)
            if index == 0:
                return False
            item = <PyObject *><uintptr_t>wheel_remove(&self.wheel, index)
        Py_DECREF(item)
        return True

    def advance(self, now, limit=None, /):
        """Go to tick `now` and return the items of the timers that expired.

        Order: by deadline; timers of one tick in the order of their last schedule or reschedule.

        Args:
            now: tick, from the present `now` to 2**63-1.
            limit: how many may come back, None for all. The rest is held back: it comes first at the next call, in its
                order, counts in ``len``, and can still be cancelled.

        Returns:
            A list of items.

        Raises:
            TypeError: an argument is not an int.
            OverflowError: now is out of range.
            ValueError: now lies before the present `now`, or limit is negative.
            MemoryError: `now` has moved; nothing is lost, and another advance goes on.

        O(timers expired and cascaded), however many ticks pass.
        """
        cdef uint64_t tick = as_tick(now, "now")
        cdef uint64_t most = as_limit(limit), count, popped = 0, got, i
        cdef uint64_t chunk[CHUNK]
        cdef bint early, failed
        cdef list expired
        with critical_section(self):
            early = tick < self.wheel.now
            failed = not early and wheel_advance(&self.wheel, tick, most)
            count = min(most, self.wheel.ready_live)
        if unlikely(early or failed):
            raise arguments.backwards() if early else MemoryError()
        expired = PyList_New(count)         # may run the garbage collector, and Python code that calls back
        with critical_section(self):
            while popped < count:
                got = wheel_pop(&self.wheel, chunk, min(count - popped, <uint64_t>CHUNK))
                if got == 0:
                    break
                for i in range(got):
                    PyList_SET_ITEM(expired, popped + i, <PyObject *><uintptr_t>chunk[i])
                popped += got
        if unlikely(popped < count):        # it did
            Py_SET_SIZE(<PyObject *>expired, popped)
        return expired

    def get(self, handle, default=None, /):
        """Return a pending timer's item, or `default` if the handle is stale. TypeError if it is not an int. O(1).
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint32_t index
        with critical_section(self):
            index = arena_find(&self.wheel.arena, number)
            if index:
                default = <object><PyObject *><uintptr_t>self.wheel.arena.nodes[index].payload
        return default

    def schedule_many(self, deadlines, items):
        """Add one timer for each pair of the two sequences, all of them or none. It needs no NumPy.

        Args:
            deadlines: absolute ticks, 0 .. 2**63-1.
            items: what `advance` returns for them.

        Returns:
            A list of the handles.

        Raises:
            TypeError: a deadline is not an int, or an argument is no sequence.
            ValueError: there are not as many deadlines as items.
            OverflowError: a deadline is out of range.
            WheelFull: they do not all fit under `max_pending`, or into a wheel.
            MemoryError: nothing was changed.

        O(n).
        """
        cdef tuple when = tuple(deadlines), what = tuple(items)
        cdef uint64_t n = len(when), i
        cdef bytes ticks = words(n), numbers = words(n)
        cdef uint64_t *tick = <uint64_t *>PyBytes_AS_STRING(ticks)
        cdef uint64_t *number = <uint64_t *>PyBytes_AS_STRING(numbers)
        cdef bint full, no_index = False
        cdef int failed = 0
        if n != <uint64_t>len(what):
            arguments.same_length(when, what, "deadlines and items")
        for i in range(n):
            tick[i] = as_tick(<object>PyTuple_GET_ITEM(when, i), "deadline")
            number[i] = <uintptr_t>PyTuple_GET_ITEM(what, i)
        handles = PyList_New(n)             # may run the garbage collector, and Python code that calls back
        with critical_section(self):
            full = n > self.room or self.wheel.live > self.room - n
            if not full:
                failed = wheel_schedule_many(&self.wheel, n, tick, number, number)
                no_index = failed and indices_are_out(&self.wheel.arena, n)
                if not failed:
                    for i in range(n):
                        Py_INCREF(<object>PyTuple_GET_ITEM(what, i))
        if full or failed:
            raise refusal_of_many(full, no_index)
        try:
            for i in range(n):
                PyList_SET_ITEM(handles, i, handle_or_error(number[i]))
        except MemoryError:
            cancel_all(self, n, number, <uint8_t *>tick, NULL)
            raise
        return handles

    def cancel_many(self, handles):
        """Remove the timers of a sequence, in order, and release their items before returning. It needs no NumPy.

        Returns:
            A list of bools: which timers were pending.

        Raises:
            TypeError: a handle is not an int, or the argument is no sequence: no timer was removed.
            MemoryError: nothing was changed.

        O(n).
        """
        cdef tuple which = tuple(handles)
        cdef uint64_t n = len(which), i
        cdef bytes numbers = words(n), flags = words((n + 7) >> 3)
        cdef uint64_t *number = <uint64_t *>PyBytes_AS_STRING(numbers)
        for i in range(n):
            number[i] = as_handle(<object>PyTuple_GET_ITEM(which, i))
        found = PyList_New(n)               # as above
        cancel_all(self, n, number, <uint8_t *>PyBytes_AS_STRING(flags), <PyObject *>found)
        return found


cdef int cancel_all(TimingWheel self, uint64_t n, uint64_t *numbers, uint8_t *was, PyObject *found) except -1:
    """Cancel the timers whose handles are in `numbers`; write which were there, into a list too unless that is NULL."""
    cdef uint64_t i
    with critical_section(self):
        wheel_cancel_many(&self.wheel, n, numbers, was, numbers)
    if found != NULL:
        for i in range(n):
            PyList_SET_ITEM(<list>found, i, new_bool(was[i]))
    for i in range(n):
        if was[i]:
            Py_DECREF(<PyObject *><uintptr_t>numbers[i])
    return 0
