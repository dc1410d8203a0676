# What both wheels share.

cdef enum:
    CHUNK = 256                         # payloads on their way into a list


@cython.trashcan(True)                # a chain of wheels, each the item of the next, would overflow the stack
cdef class _Wheel:
    """What both wheels share."""

    def __cinit__(self):
        wheel_init(&self.wheel, 0, next(_numbers))
        self.room = NEVER

    def __init__(self, start=0, *, max_pending=None):
        cdef uint64_t tick = as_tick(start, "start")
        most = arguments.max_pending(max_pending)
        restart(self, tick)
        self.max_pending = most
        self.room = NEVER if most is None or most > NEVER else most

    def __dealloc__(self):
        cdef wheel_t old = self.wheel
        wheel_init(&self.wheel, 0, 0)
        release_wheel(self, &old)

    @classmethod
    def __class_getitem__(cls, item, /):
        return GenericAlias(cls, item)

    def __reduce__(self):
        raise TypeError(f"cannot copy or pickle {type(self).__name__!r}: its handles would not survive it")

    def __reduce_ex__(self, protocol, /):
        return self.__reduce__()

    @property
    def now(self):
        """The tick last advanced to."""
        with critical_section(self):
            pass_gate(self)
            return self.wheel.now

    def reschedule(self, handle, deadline, /):
        """Move a timer to another deadline; its handle stays valid.

        It goes behind the timers that already stand on that tick. A timer held back by a limit becomes an ordinary one.

        Args:
            handle: from `schedule`.
            deadline: absolute tick, 0 .. 2**63-1; at or before `now` it expires at the next advance.

        Returns:
            True, or False if the timer expired or was cancelled, or the handle is not of this wheel.

        Raises:
            TypeError: handle or deadline is not an int.
            OverflowError: deadline is out of range.
            MemoryError: the timer stays where it was.

        O(1); to a later deadline it touches one cache line.
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint64_t tick = as_tick(deadline, "deadline")
        cdef uint32_t index
        with critical_section(self):
            pass_gate(self)
            index = arena_find(&self.wheel.arena, number)
            if index == 0:
                return False
            if wheel_move(&self.wheel, index, tick):
                raise MemoryError
        return True

    def next_deadline(self):
        """Return a tick by which to advance: no later than the earliest deadline, no earlier than `now`; None if empty.

        It may lie before the earliest deadline, where a group of timers must be looked at again. A loop of
        ``advance(next_deadline())`` meets a bounded number of those between two timers. O(levels).
        """
        cdef uint64_t tick
        with critical_section(self):
            pass_gate(self)
            tick = wheel_next_deadline(&self.wheel)
        return None if tick == NEVER else tick

    def deadline(self, handle, /):
        """Return a timer's deadline, an absolute tick, as it was given; None if the handle is stale. O(1).

        Raises:
            TypeError: handle is not an int.
        """
        cdef uint64_t number = as_handle(handle)
        cdef uint32_t index
        with critical_section(self):
            pass_gate(self)
            index = arena_find(&self.wheel.arena, number)
            return self.wheel.arena.nodes[index].deadline if index else None

    def reserve(self, count, /):
        """Take now the memory for `count` timers pending at once, those pending already included.

        Then no `schedule` up to that many waits for the wheel to grow, nor for the system to supply the memory. Without
        it a wheel grows as timers come. 32 bytes a timer are kept until `clear()`, whether the timers come or not.

        Args:
            count: how many timers; fewer than there is room for change nothing.

        Raises:
            TypeError: count is not an int.
            ValueError: count is negative.
            WheelFull: count is more than `max_pending`, or than the wheel can hold, 2**31-1 at most.
            MemoryError: everything is as it was.

        O(count), at the speed at which the system clears memory; other threads wait.
        """
        cdef uint64_t number = arguments.room(count)
        cdef bint full, failed = False, no_index = False
        with critical_section(self):
            pass_gate(self)
            full = number > self.room
            if not full and number > self.wheel.live:
                failed = arena_touch(&self.wheel.arena, number - self.wheel.live)
                no_index = failed and indices_are_out(&self.wheel.arena, number - self.wheel.live)
        if full:
            raise WheelFull("more than max_pending timers can never be pending")
        if failed:
            raise WheelFull("a wheel has fewer indices than that") if no_index else MemoryError()

    def clear(self):
        """Cancel every timer and give the memory back. `now` stays; all handles given so far are stale for good. O(n).
        """
        restart(self, NEVER)

    def __len__(self):
        """Timers pending, those held back by a limit included. O(1)."""
        with critical_section(self):
            pass_gate(self)
            return self.wheel.live

    def __contains__(self, handle):
        """Whether the timer is pending. TypeError if handle is not an int. O(1)."""
        cdef uint64_t number = as_handle(handle)
        with critical_section(self):
            pass_gate(self)
            return arena_find(&self.wheel.arena, number) != 0

    def __iter__(self):
        """Iterate over the handles of the timers pending at the moment of the call, in no particular order. O(n)."""
        cdef walk_t walk
        cdef list handles = []
        with critical_section(self):
            pass_gate(self)
            walk = live_nodes(&self.wheel.arena)
            while next_live(&walk):
                handles.append(arena_handle(&self.wheel.arena, walk.index))
        return iter(handles)

    def __sizeof__(self):
        """Bytes of memory the wheel owns, items not included."""
        cdef size_t size
        with critical_section(self):
            pass_gate(self)
            size = wheel_bytes(&self.wheel)
        return type(self).__basicsize__ + size

    def _check(self):
        """Recompute every invariant slowly; RuntimeError says which one is broken. For tests. O(n).
        """
        cdef const char *wrong
        with critical_section(self):
            pass_gate(self)
            wrong = wheel_check(&self.wheel)
        if wrong != NULL:
            raise RuntimeError(wrong.decode())
