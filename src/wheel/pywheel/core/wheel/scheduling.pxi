# What comes back from `schedule`: the handle as an object, or an error.

cdef object refusal(bint full, bint no_index):
    """The error for a schedule that found `max_pending` timers, or no index left, or no memory."""
    if full:
        return WheelFull("max_pending timers are pending: cancel some, advance, or make a wheel with a higher limit")
    if no_index:
        return WheelFull("every index of the pool is used: spread the timers over several wheels")
    return MemoryError()


cdef inline object as_int(_Wheel self, uint64_t handle):
    """The handle just made, as an object; without memory for that the timer is taken back."""
    cdef PyObject *number = new_handle(handle)
    if unlikely(number == NULL):
        take_back(self, handle)
    value = <object>number
    Py_DECREF(number)
    return value


cdef int take_back(_Wheel self, uint64_t handle) except -1:
    cdef uint64_t payload = 0
    cdef uint32_t index
    PyErr_Clear()
    with critical_section(self):
        pass_gate(self)
        index = arena_find(&self.wheel.arena, handle)
        if index:
            payload = wheel_remove(&self.wheel, index)
    if index and isinstance(self, TimingWheel):
        Py_DECREF(<PyObject *><uintptr_t>payload)
    raise MemoryError


cdef object refusal_of_many(bint full, bint no_index):
    """The same for timers that did not find room together."""
    if full:
        return WheelFull("they would be more than max_pending timers: none of them was scheduled")
    if no_index:
        return WheelFull("the pool has not as many indices left: none of them was scheduled")
    return MemoryError()


cdef inline bytes words(uint64_t n):
    """Room for so many words of 64 bits, with anything in them."""
    return PyBytes_FromStringAndSize(NULL, n * sizeof(uint64_t))
