# The wheel of integers, with its bulk calls.


cdef class KeyWheel(_Wheel):
    """KeyWheel(start=0, *, max_pending=None)\n--\n
    A hierarchical timing wheel whose timers carry a 64-bit integer key instead of an object.

    The `*_many` methods take and give NumPy arrays; from about a dozen timers on they are faster than a loop, and from
    a few thousand on they let other threads run meanwhile. They accept any integer dtype, or a sequence of ints, of one
    dimension; contiguous arrays of 64 bits are used without a copy. A bad argument leaves the wheel unchanged.

    Args:
        start: the tick it stands at, 0 .. 2**63-1.
        max_pending: how many timers it may hold before `schedule` raises WheelFull; None for no limit.

    Attributes:
        now: the tick last advanced to.
        max_pending: as given.
    """

    def __cinit__(self):
        self.gate = PyThread_allocate_lock()
        if self.gate == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.gate != NULL:
            PyThread_free_lock(self.gate)

    def schedule(self, deadline, key, /):
        """Add a timer and return its handle.

        Args:
            deadline: absolute tick, 0 .. 2**63-1; at or before `now` it expires at the next advance.
            key: what `advance` returns for it, 0 .. 2**64-1; keys need not differ.

        Returns:
            An int that stands for this timer, and never for another one of this wheel.

        Raises:
            TypeError: an argument is not an int.
            OverflowError: an argument is out of range.
            WheelFull: `max_pending` timers are pending, or as many as a wheel can hold, 2**31-1 at most.
            MemoryError: every other timer is still there.

        O(1).
        """
        cdef uint64_t tick = as_tick(deadline, "deadline")
        cdef uint64_t payload = as_key(key)
        cdef uint64_t handle = 0
        cdef bint full, no_index = False
        with critical_section(self):
            pass_gate(self)
            full = self.wheel.live >= self.room
            if not full:
                handle = wheel_schedule(&self.wheel, tick, payload)
                no_index = handle == 0 and indices_are_out(&self.wheel.arena, 1)
        if unlikely(handle == 0):
            raise refusal(full, no_index)
        return as_int(self, handle)

    def cancel(self, handle, /):
        """Remove a timer.

        Returns:
            True, or False if the timer expired or was cancelled already, or the handle is not of this wheel.

        Raises:
            TypeError: handle is not an int.

        O(1).
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint32_t index
        with critical_section(self):
            pass_gate(self)
            index = arena_find(&self.wheel.arena, number)
            if index:
                wheel_remove(&self.wheel, index)
        return index != 0

    def advance(self, now, limit=None, /):
        """Go to tick `now` and return the keys of the timers that expired.

        Order: by deadline; timers of one tick in the order of their last schedule or reschedule.

        Args:
            now: tick, from the present `now` to 2**63-1.
            limit: how many may come back, None for all. The rest is held back: it comes first at the next call, in its
                order, counts in ``len``, and can still be cancelled.

        Returns:
            A list of ints.

        Raises:
            TypeError: an argument is not an int.
            OverflowError: now is out of range.
            ValueError: now lies before the present `now`, or limit is negative.
            MemoryError: `now` has moved; nothing is lost, and another advance goes on.

        O(timers expired and cascaded), however many ticks pass.
        """
        cdef uint64_t tick = as_tick(now, "now")
        cdef uint64_t most = as_limit(limit), count, done = 0, position = 0, got, i
        cdef uint64_t chunk[CHUNK]
        cdef bint early, failed
        cdef list expired
        with critical_section(self):
            pass_gate(self)
            early = tick < self.wheel.now
            failed = not early and wheel_advance(&self.wheel, tick, most)
            count = min(most, self.wheel.ready_live)
        if unlikely(early or failed):
            raise arguments.backwards() if early else MemoryError()
        expired = PyList_New(count)         # may run the garbage collector, and Python code that calls back
        with critical_section(self):
            pass_gate(self)
            count = min(count, self.wheel.ready_live)
            while done < count:             # read first, as an int may find no memory
                got = wheel_peek(&self.wheel, &position, chunk, min(count - done, <uint64_t>CHUNK))
                for i in range(got):
                    PyList_SET_ITEM(expired, done + i, new_int(chunk[i]))
                done += got
            while done:
                done -= wheel_pop(&self.wheel, chunk, min(done, <uint64_t>CHUNK))
        Py_SET_SIZE(<PyObject *>expired, count)
        return expired

    def get(self, handle, default=None, /):
        """Return a pending timer's key, or `default` if the handle is stale. TypeError if it is not an int. O(1).
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint32_t index
        with critical_section(self):
            pass_gate(self)
            index = arena_find(&self.wheel.arena, number)
            return self.wheel.arena.nodes[index].payload if index else default

    def schedule_many(self, deadlines, keys):
        """Add one timer for each pair of the two arrays, all of them or none.

        Args:
            deadlines: shape (n,), integers: absolute ticks, 0 .. 2**63-1.
            keys: shape (n,), integers, 0 .. 2**64-1.

        Returns:
            The handles: shape (n,), uint64.

        Raises:
            TypeError: a dtype is not of integers.
            ValueError: the arrays have not one dimension and the same length.
            OverflowError: a value is out of range.
            WheelFull: they do not all fit under `max_pending`, or into a wheel.
            MemoryError: nothing was changed.
            ImportError: NumPy is missing.

        O(n).
        """
        cdef Words when = Words(deadlines, arguments.deadlines, TICKS)
        cdef Words what = Words(keys, arguments.keys, KEYS)
        same_length(when, what, "deadlines and keys")
        cdef object handles = new_handles(when.n)
        cdef Words out = Words(handles, None, RESULT)
        cdef uint64_t n = when.n
        cdef int failed = 0
        cdef bint full, no_index = False
        begin(self)
        cdef PyThreadState *released = let_go(n)
        full = n > self.room or self.wheel.live > self.room - n
        if not full:
            failed = wheel_schedule_many(&self.wheel, n, when.at, what.at, out.at)
            no_index = failed and indices_are_out(&self.wheel.arena, n)
        end(self, released)
        if full or failed:
            raise refusal_of_many(full, no_index)
        return handles

    def reschedule_many(self, handles, deadlines):
        """Move one timer for each pair of the two arrays, in array order.

        Args:
            handles: shape (n,), integers.
            deadlines: shape (n,), integers: absolute ticks, 0 .. 2**63-1.

        Returns:
            Which timers were pending: shape (n,), bool.

        Raises:
            TypeError: a dtype is not of integers.
            ValueError: the arrays have not one dimension and the same length.
            OverflowError: a deadline is out of range.
            MemoryError: nothing was changed.
            ImportError: NumPy is missing.

        O(n).
        """
        cdef Words which = Words(handles, arguments.handles, HANDLES)
        cdef Words when = Words(deadlines, arguments.deadlines, TICKS)
        same_length(which, when, "handles and deadlines")
        cdef object found = new_flags(which.n)
        cdef Words out = Words(found, None, RESULT)
        cdef int failed
        begin(self)
        cdef PyThreadState *released = let_go(which.n)
        failed = wheel_reschedule_many(&self.wheel, which.n, which.at, when.at, <uint8_t *>out.at)
        end(self, released)
        if failed:
            raise MemoryError
        return found

    def cancel_many(self, handles):
        """Remove the timers, in array order.

        Args:
            handles: shape (n,), integers.

        Returns:
            Which timers were pending: shape (n,), bool.

        Raises:
            TypeError: the dtype is not of integers.
            ValueError: the array has not one dimension.
            MemoryError: nothing was changed.
            ImportError: NumPy is missing.

        O(n).
        """
        cdef Words which = Words(handles, arguments.handles, HANDLES)
        cdef object found = new_flags(which.n)
        cdef Words out = Words(found, None, RESULT)
        begin(self)
        cdef PyThreadState *released = let_go(which.n)
        wheel_cancel_many(&self.wheel, which.n, which.at, <uint8_t *>out.at, NULL)
        end(self, released)
        return found

    def advance_many(self, now, limit=None):
        """Go to tick `now` and return the keys of the timers that expired, as `advance` does, in an array.

        Args, errors and order: as for `advance`; ImportError if NumPy is missing.

        Returns:
            The keys: shape (number expired,), uint64.

        O(timers expired and cascaded), however many ticks pass.
        """
        cdef uint64_t tick = as_tick(now, "now")
        cdef uint64_t most = as_limit(limit), count, there
        cdef bint early, failed
        cdef object keys
        cdef Words out
        cdef PyThreadState *released
        need_numpy()
        begin(self)
        released = let_go(self.wheel.live)
        early = tick < self.wheel.now
        failed = not early and wheel_advance(&self.wheel, tick, most)
        count = min(most, self.wheel.ready_live)
        end(self, released)
        if early or failed:
            raise arguments.backwards() if early else MemoryError()
        while True:
            keys = new_handles(count)           # the last that can fail, before the first timer is taken
            out = Words(keys, None, RESULT)
            begin(self)
            there = min(count, self.wheel.ready_live)
            if there == count:
                wheel_pop(&self.wheel, out.at, count)
            end(self, NULL)
            if there == count:
                return keys
            count = there                               # another thread has taken some
