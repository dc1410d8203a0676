# With the GIL a method holds it from its first look at the wheel to its last write, as no Python code can run in
# between: objects are made, and references dropped, before or after. Without the GIL the critical section on the wheel
# does the same. A bulk call of a KeyWheel lets both go while it works; it sets `busy` first, under them, and whoever
# finds that waits at the gate. So the price of the lock is one load where there is a GIL, and an uncontended
# critical section where there is none.
#
# The locks of all modules. Whoever holds one takes only those below it:
#
#   1  critical section on a Timeout       its state
#   2  critical section on a wheel         the wheel, and what its timers know of that: a Timer's fields, `_scheduled`
#   2  critical section on a TimerHandle   its other fields; nothing else is taken in it
#   3  gate of a KeyWheel                  that a bulk call is at work
#
# A bulk call takes the gate in the wheel's critical section, keeps it when it leaves that, and at its end enters that
# again. So whoever waits for the gate holds nothing: it lets the GIL go, and every critical section with it.

cdef enum:
    LONG_CALL = 4096                    # timers from which a bulk call releases the GIL

cdef int forks = 1                      # processes between the first and this one, and 1: what `busy` is set to


def _after_fork():
    global forks
    forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


cdef int wait(_Wheel self) except -1:
    while self.busy:
        if self.busy != forks:
            raise RuntimeError("this process was forked while another thread was in a bulk call on this wheel, "
                               "whose state is lost: make a new wheel after a fork")
        with nogil:
            PyThread_acquire_lock((<KeyWheel>self).gate, WAIT_LOCK)
            PyThread_release_lock((<KeyWheel>self).gate)
    return 0


cdef inline int pass_gate(_Wheel self) except -1:
    """Return when no bulk call is at work on the wheel; first thing in a critical section."""
    return wait(self) if unlikely(self.busy) else 0


cdef int begin(KeyWheel self) except -1:
    """Take the wheel for a bulk call; until `end` it calls no Python code."""
    with critical_section(self):
        pass_gate(self)
        self.busy = forks
        PyThread_acquire_lock(self.gate, WAIT_LOCK)
    return 0


cdef inline PyThreadState *let_go(uint64_t n) noexcept:
    """Release the GIL if there is work for `n` timers: taking it back may wait for another thread's whole turn."""
    return PyEval_SaveThread() if n >= LONG_CALL else NULL


cdef void end(KeyWheel self, PyThreadState *released) noexcept:
    if released != NULL:
        PyEval_RestoreThread(released)
    with critical_section(self):
        self.busy = 0
        PyThread_release_lock(self.gate)
