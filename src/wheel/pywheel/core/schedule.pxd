# cython: cdivision=True
# One timer: schedule, reschedule, cancel. Plain C, no Python object, no GIL; not locked.
#
# Each schedule and reschedule takes the next sequence number, which orders the timers of one tick. The numbers must not
# wrap: once in 2**38 operations, before they do, all live timers are numbered anew.

from libc.stdint cimport uint32_t, uint64_t

from pywheel.core.arena cimport (GEN_BITS, arena_give, arena_take, pack_handle, gen_mask, live_nodes, next_live, node_t,
                                 walk_t)
from pywheel.core.bits cimport PyMem_RawFree, PyMem_RawMalloc, unlikely
from pywheel.core.levels cimport (OVERDUE, SEQ_LIMIT, add_levels, fan_out, level_of, place, push, unlink, wheel_t)
from pywheel.core.pieces cimport heap_pieces
from pywheel.core.sort cimport pair_t, sort_pairs


cdef inline int renumber(wheel_t *w) noexcept nogil:
    """Give the live timers the sequence numbers 1 .. live in their present order; -1 if memory is out."""
    cdef uint64_t n = 0, i
    cdef walk_t walk = live_nodes(&w.arena)
    cdef node_t *node
    cdef pair_t *pairs = <pair_t *>PyMem_RawMalloc(2 * w.live * sizeof(pair_t) + 1)
    if pairs == NULL:
        return -1
    while next_live(&walk):
        pairs[n].high, pairs[n].low = walk.node.stamp >> GEN_BITS, walk.index
        n += 1
    sort_pairs(pairs, n, pairs + n)
    for i in range(n):
        node = w.arena.nodes + pairs[i].low
        node.stamp = (i + 1) << GEN_BITS | (node.stamp & gen_mask())
    w.sequence = n
    PyMem_RawFree(pairs)
    if w.merging:
        heap_pieces(w)
    w.renumber_at = max(SEQ_LIMIT, 2 * w.live)
    return 0


cdef inline int make_room(wheel_t *w, uint64_t deadline, uint64_t count) noexcept nogil:
    cdef int level = level_of(deadline, w.cursor) if deadline >= w.cursor else 0
    if add_levels(w, level + 1):
        return -1
    if w.live + count > w.fan_out_at:
        fan_out(w, w.live + count)
    if w.sequence + count > w.renumber_at:
        if renumber(w):
            return -1
        w.renumber_at = max(w.renumber_at, w.sequence + count)
    return 0


cdef inline int prepare(wheel_t *w, uint64_t deadline, uint64_t count) noexcept nogil:
    """Make room for `count` sequence numbers and deadlines up to `deadline`; -1, with nothing lost, without memory."""
    if unlikely(deadline - w.cursor >= w.reach or w.live + count > w.fan_out_at or w.sequence + count > w.renumber_at):
        return make_room(w, deadline, count)
    return 0


cdef inline void settle(wheel_t *w, uint32_t index, node_t *node, uint64_t deadline) noexcept nogil:
    """Write the deadline, and put the node, which is in no list, where it belongs."""
    node.deadline = deadline
    if unlikely(deadline <= w.now):
        push(w, index, node, 0, OVERDUE)
    else:
        place(w, index, node)


cdef inline uint64_t insert(wheel_t *w, uint32_t index, uint64_t sequence, uint64_t deadline,
                            uint64_t payload) noexcept nogil:
    """Make a timer of a new node; the caller counts it. Return its handle."""
    cdef node_t *node = w.arena.nodes + index
    cdef uint64_t generation = node.stamp
    node.stamp = sequence << GEN_BITS | generation
    node.payload = payload
    settle(w, index, node, deadline)
    return pack_handle(&w.arena, generation, index)


cdef inline uint64_t wheel_schedule(wheel_t *w, uint64_t deadline, uint64_t payload) noexcept nogil:
    """Schedule at tick `deadline` < 2**63. Return the handle, or 0, with nothing changed, if memory is out. O(1)."""
    cdef uint32_t index
    if prepare(w, deadline, 1):
        return 0
    index = arena_take(&w.arena)
    if unlikely(index == 0):
        return 0
    w.live += 1
    w.sequence += 1
    return insert(w, index, w.sequence, deadline, payload)


cdef inline int wheel_move(wheel_t *w, uint32_t index, uint64_t deadline) noexcept nogil:
    """Reschedule a live node; -1, with nothing changed, if memory is out. O(1)."""
    cdef node_t *node
    cdef uint64_t previous
    if prepare(w, deadline, 1):
        return -1
    node = w.arena.nodes + index
    previous = node.deadline
    w.sequence += 1
    node.stamp = w.sequence << GEN_BITS | (node.stamp & gen_mask())
    if deadline >= previous and previous > w.now:       # invariant b: one cache line instead of four
        node.deadline = deadline
        return 0
    unlink(w, node)
    settle(w, index, node, deadline)
    return 0


cdef inline uint64_t wheel_remove(wheel_t *w, uint32_t index) noexcept nogil:
    """Cancel a live node and return its payload. O(1)."""
    cdef node_t *node = w.arena.nodes + index
    unlink(w, node)
    arena_give(&w.arena, index)
    w.live -= 1
    return node.payload
