# The bulk calls: the operations of schedule.pxd on an array, while the next nodes are prefetched.
# Arrays are read once, element by element: another thread that writes to them meanwhile harms only its own values.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from pywheel.core.arena cimport arena_find, arena_reserve, arena_take, index_in, node_t
from pywheel.core.bits cimport low_bits, prefetch
from pywheel.core.levels cimport HEAD, LOOK_AHEAD, wheel_t
from pywheel.core.schedule cimport insert, prepare, wheel_move, wheel_remove

cdef inline uint64_t latest(const uint64_t *deadlines, uint64_t n) noexcept nogil:
    cdef uint64_t most = 0, i
    for i in range(n):
        most = max(most, deadlines[i] & low_bits(63))
    return most


cdef inline int prepare_many(wheel_t *w, uint64_t n, const uint64_t *deadlines, uint64_t *bound) noexcept nogil:
    """Make room for `n` deadlines, and write an upper bound of them; -1, with nothing lost, without memory."""
    cdef uint64_t bits = 0, i
    for i in range(n):
        bits |= deadlines[i]
    bound[0] = bits & low_bits(63)              # in vectors; finding the greatest goes one by one
    if bound[0] - w.cursor >= w.reach:
        bound[0] = latest(deadlines, n)
    return prepare(w, bound[0], n)


cdef inline int wheel_schedule_many(wheel_t *w, uint64_t n, const uint64_t *deadlines, const uint64_t *payloads,
                                    uint64_t *handles) noexcept nogil:
    """Schedule all; -1, with nothing changed, if memory is out. `handles` may be `payloads`."""
    cdef uint64_t bound, first, i
    cdef uint32_t index
    if arena_reserve(&w.arena, n) or prepare_many(w, n, deadlines, &bound):
        return -1
    first = w.sequence + 1
    for i in range(n):
        index = arena_take(&w.arena)
        prefetch(w.arena.nodes + index + 2 * LOOK_AHEAD)    # usually nodes are taken in index order
        handles[i] = insert(w, index, first + i, min(deadlines[i], bound), payloads[i])
    w.sequence += n
    w.live += n
    return 0


cdef inline void fetch(const wheel_t *w, uint64_t handle) noexcept nogil:
    cdef uint32_t index = index_in(&w.arena, handle)
    if index < w.arena.used:
        prefetch(w.arena.nodes + index)


cdef inline void fetch_neighbours(const wheel_t *w, uint64_t handle) noexcept nogil:
    cdef uint32_t index = index_in(&w.arena, handle)
    cdef const node_t *node
    if index < w.arena.used:
        node = w.arena.nodes + index
        if node.prev < HEAD:
            prefetch(w.arena.nodes + node.prev)
        if node.next < w.arena.used:
            prefetch(w.arena.nodes + node.next)


cdef inline void wheel_cancel_many(wheel_t *w, uint64_t n, const uint64_t *handles, uint8_t *found,
                                   uint64_t *payloads) noexcept nogil:
    """Cancel all live timers; write which were live. Write payloads unless that is NULL; it may be `handles`."""
    cdef uint64_t i, payload
    cdef uint32_t index
    for i in range(min(n, 2 * LOOK_AHEAD)):
        fetch(w, handles[i])
    for i in range(n):
        if i + 2 * LOOK_AHEAD < n:
            fetch(w, handles[i + 2 * LOOK_AHEAD])
        if i + LOOK_AHEAD < n:
            fetch_neighbours(w, handles[i + LOOK_AHEAD])
        index = arena_find(&w.arena, handles[i])
        found[i] = index != 0
        if index:
            payload = wheel_remove(w, index)
            if payloads != NULL:
                payloads[i] = payload


cdef inline int wheel_reschedule_many(wheel_t *w, uint64_t n, const uint64_t *handles, const uint64_t *deadlines,
                                      uint8_t *found) noexcept nogil:
    """Reschedule all live timers; -1, with nothing changed, if memory is out."""
    cdef uint64_t bound, i
    cdef uint32_t index
    if prepare_many(w, n, deadlines, &bound):
        return -1
    for i in range(n):
        if i + 2 * LOOK_AHEAD < n:
            fetch(w, handles[i + 2 * LOOK_AHEAD])
        index = arena_find(&w.arena, handles[i])
        found[i] = index != 0
        if index:
            wheel_move(w, index, min(deadlines[i], bound))
    return 0
