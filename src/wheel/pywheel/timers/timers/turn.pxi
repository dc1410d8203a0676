# A turn: one timer after the other that is due is taken and called.


cdef enum:
    QUOTA = 4096                        # timers that each step of a turn which is not whole may move, or collect


cdef int64_t turn(Driver self, uint64_t now, uint64_t most, bint whole) except -1:
    """Run what is due, at most so many callbacks; return how many ran. If not `whole`, a quota is collected."""
    cdef wheel_t *w = &self.wheel.wheel
    cdef uint64_t tick = ticks_by(self, now), done = 0
    cdef list behind = [], batch
    cdef Timer timer
    cdef int failed = 0
    cdef bint late
    with critical_section(self.wheel):
        self.wheel.passes = IN_USE
        if tick < w.now:                # the clock went back: what is due by its new time has run
            most = 0
        else:
            failed = wheel_advance(w, tick, most) if whole else wheel_advance_some(w, tick, most, QUOTA)
    if failed:
        raise MemoryError
    while done < most:
        timer = next_due(self, now, most - done if whole else 0, &late)
        if timer is None:
            break
        if late:
            behind.append(timer)
        done += call(self, timer)
    if not whole and is_left(self):
        behind = []                     # their turn comes after what is left; the wheel has them
    while behind and done < most:       # once more for each, until none has missed a call
        batch, behind = behind, []
        for timer in batch:
            if done < most and again(self, <PeriodicTimer>timer, now, &late):
                if late:
                    behind.append(timer)
                done += call(self, timer)
    return done


cdef bint is_left(Driver self) noexcept:
    """Whether something that was due when the wheel was last advanced is still to be called."""
    with critical_section(self.wheel):
        return is_behind(&self.wheel.wheel)


cdef Timer next_due(Driver self, uint64_t now, uint64_t most, bint *late):
    """Return the next timer that is due, out of the wheel unless it is periodic; None if there is no more.

    If no timer is left of those collected, collect `most`: callbacks may have cancelled or moved what the limit chose.
    If `most` is 0, none: that is for the next turn.
    Write whether a periodic one has missed a call, for which it is to be called `again`.
    """
    cdef wheel_t *w = &self.wheel.wheel
    cdef uint64_t payload
    cdef uint32_t index
    cdef Timer timer = None
    cdef bint failed = False
    late[0] = False
    with critical_section(self.wheel):
        if self.halted:
            return None
        if w.ready_live == 0 and most:
            failed = wheel_collect_more(w, most)
        while w.ready_begin < w.ready_end and w.ready[w.ready_begin] == 0:
            w.ready_begin += 1          # once for all: `behind` timers leave nothing but gaps
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
