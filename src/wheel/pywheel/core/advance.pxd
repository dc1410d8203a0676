# cython: cdivision=True
# Time: collect due timers, in order, and hand them out. Plain C, no Python object, no GIL; not locked.

from libc.stdint cimport uint32_t, uint64_t

from pywheel.core.arena cimport arena_give
from pywheel.core.bits cimport DIGIT_BITS, DIGIT_MASK, SLOT_MASK, ctz, low_bits, msb, next_bit, prefetch, unlikely
from pywheel.core.levels cimport (KEEP, LATE, LISTS, LOOK_AHEAD, NEVER, OVERDUE, READY, drain, fetch_first,
                                  fetch_second, free_buffers, reserve_ready, reserve_scratch, wheel_t)
from pywheel.core.pieces cimport (add_piece, begin_overdue, begin_pieces, heap_pieces, merge_pieces,
                                  reserve_piece)
from pywheel.core.schedule cimport renumber
from pywheel.core.sort cimport pair_t, sort_keys, sort_pairs

cdef extern from *:
    """
    #ifndef PYWHEEL_QUOTA                   /* of each step of wheel_advance: without end, except in tests */
    #define PYWHEEL_QUOTA UINT64_MAX
    #endif
    """
    const uint64_t QUOTA "((uint64_t)PYWHEEL_QUOTA)"


cdef inline void sort_overdue(wheel_t *w, uint64_t *keys, uint64_t n, int index_bits) noexcept nogil:
    """The overdue slot is the only one with more than one deadline: sort by deadline, then sequence."""
    cdef pair_t *pairs = <pair_t *>(keys + n)
    cdef uint64_t i
    for i in range(n):
        pairs[i].high = w.arena.nodes[keys[i] & low_bits(index_bits)].deadline
        pairs[i].low = keys[i]
    sort_pairs(pairs, n, pairs + n)
    for i in range(n):
        keys[i] = pairs[i].low


cdef inline void hold(wheel_t *w, const uint64_t *keys, uint64_t n, uint64_t index_mask) noexcept nogil:
    """Put collected nodes at the end of `ready`."""
    cdef uint64_t i
    cdef uint32_t index
    for i in range(n):
        index = <uint32_t>(keys[i] & index_mask)
        w.arena.nodes[index].prev = READY
        w.arena.nodes[index].next = <uint32_t>(w.ready_end + i)
        w.ready[w.ready_end + i] = index
    w.ready_end += n
    w.ready_live += n


cdef inline int collect(wheel_t *w, uint32_t slot, uint64_t due, uint64_t quota) noexcept nogil:
    """Collect the due timers of a slot of level 0, in order; -1, with nothing changed, without memory.

    A slot that is taken in pieces gives one more piece of about `quota` timers.
    """
    cdef uint64_t room = min(w.level[0].weight[slot], w.live), n
    cdef int index_bits = msb(w.arena.used) + 1
    cdef uint64_t *keys
    if unlikely(w.sequence >> (64 - index_bits)) and renumber(w):       # a key must hold both: beyond 2**26 nodes
        return -1
    if unlikely(w.in_pieces):
        room = min(room, min(room, quota) + LISTS)
        if reserve_piece(w):
            return -1
    elif reserve_ready(w, room):
        return -1
    if reserve_scratch(w, 5 * room if slot >= OVERDUE else 2 * room):
        return -1
    keys = w.scratch
    n = drain(w, 0, slot, quota, due, keys, index_bits)
    if slot >= OVERDUE:
        sort_overdue(w, keys, n, index_bits)
    else:
        sort_keys(keys, n, keys + n, index_bits)
    if unlikely(w.in_pieces):
        add_piece(w, keys, n, low_bits(index_bits))
    else:
        hold(w, keys, n, low_bits(index_bits))
    return 0


cdef inline int collect_pieces(wheel_t *w, uint64_t limit, uint64_t *quota) noexcept nogil:
    """Take one more piece of a slot, of about `quota` timers. When the slot is complete, merge until `limit` are ready.

    -1 without memory; nothing is lost.
    """
    cdef uint32_t slot = w.in_pieces - 1
    cdef uint64_t weight = w.level[0].weight[slot]
    if weight and quota[0]:
        if collect(w, slot, w.now if slot == LATE else w.cursor, quota[0]):
            return -1
        quota[0] -= min(quota[0], min(weight, w.live))
    if w.level[0].weight[slot]:
        return 0
    if not w.merging:
        heap_pieces(w)
    return merge_pieces(w, limit)


cdef inline bint move_cursor(wheel_t *w, uint64_t tick, uint64_t *quota) noexcept nogil:
    """Go to `tick`, later than the cursor, with no occupied slot between; move down the slots of upper levels that
    start there. If they hold more than `quota`, take that much out of them, stop a tick before, and return False."""
    cdef int l
    cdef uint32_t slot, weight
    if tick & DIGIT_MASK == 0:
        w.cursor = tick - 1                             # as seen from here, none of them moves back to its old place
        for l in range(msb(w.in_use | 1), 0, -1):       # from high to low: each level fills the slots of the next
            slot = <uint32_t>(tick >> DIGIT_BITS * l) & SLOT_MASK
            weight = w.level[l].weight[slot] if tick & low_bits(DIGIT_BITS * l) == 0 else 0
            if weight:
                drain(w, l, slot, quota[0], 0, NULL, 0)
                if w.level[l].weight[slot]:
                    return False
                quota[0] -= min(quota[0], <uint64_t>weight)
    w.cursor = tick
    return True


cdef inline bint next_occupied(wheel_t *w, uint32_t *levels, int *level, uint64_t *number) noexcept nogil:
    """Take the lowest of `levels`, at first in_use, that has an occupied slot; False if none is left.

    Write the level, and the first such slot's number: the slot starts at tick number << DIGIT_BITS * level.
    """
    cdef uint64_t here
    cdef int l, distance
    while levels[0]:
        l = ctz(levels[0])
        levels[0] &= levels[0] - 1
        here = (w.cursor >> DIGIT_BITS * l) + (l > 0)           # invariant a
        distance = next_bit(w.level[l].occupied, <int>(here & SLOT_MASK))
        if distance >= 0:
            level[0], number[0] = l, here + distance
            return True
        w.in_use ^= <uint32_t>1 << l
    return False


cdef inline uint64_t next_event(wheel_t *w) noexcept nogil:
    """The first tick at which an occupied slot starts, of any level; NEVER if all are empty. O(levels)."""
    cdef uint64_t earliest = NEVER, number
    cdef uint32_t rest = w.in_use
    cdef int l
    while next_occupied(w, &rest, &l, &number):
        earliest = min(earliest, number << DIGIT_BITS * l)
    return earliest


cdef inline int collect_until(wheel_t *w, uint64_t until, uint64_t limit, uint64_t quota) noexcept nogil:
    """Collect tick by tick through `until`, until `limit` timers are ready, or about `quota` moved; -1: no memory."""
    cdef uint64_t tick, left = quota
    cdef uint32_t slot, weight
    if unlikely(w.in_pieces) and collect_pieces(w, limit, &left):
        return -1
    while w.cursor <= until and w.ready_live < limit and left:
        tick = w.cursor
        slot = <uint32_t>(tick & SLOT_MASK)
        if w.levels and w.level[0].occupied[slot >> 6] >> (slot & 63) & 1:
            weight = w.level[0].weight[slot]
            if unlikely(weight > quota):
                if begin_pieces(w, slot) or collect_pieces(w, limit, &left):
                    return -1
                if w.in_pieces:
                    break
            elif collect(w, slot, tick, NEVER):
                return -1
            left -= min(left, <uint64_t>weight)
            tick += 1
        else:
            tick = min(next_event(w), until + 1)
        if not move_cursor(w, tick, &left):
            break
    return 0


cdef inline void spread(wheel_t *w, uint64_t elapsed, uint64_t quota) noexcept nogil:
    """Move part of the next slots down ahead of time, so that a step of `elapsed` ticks leaves in time.

    The nodes that the next tick needs are prefetched: on the upper levels, since a drain asks for those that it leaves.
    """
    cdef uint64_t here, left
    cdef uint32_t slot, weight, rest = w.in_use & ~<uint32_t>1
    cdef int l
    while rest:
        l = ctz(rest)
        rest &= rest - 1
        here = (w.cursor >> DIGIT_BITS * l) + 1
        slot = <uint32_t>here & SLOT_MASK
        weight = w.level[l].weight[slot]
        if weight:
            left = (here << DIGIT_BITS * l) - w.cursor
            drain(w, l, slot, min(weight // (left // elapsed + 1) + LISTS, quota), 0, NULL, 0)
    if w.in_use & 1:
        fetch_first(w, 0, <uint32_t>w.cursor & SLOT_MASK)


cdef inline bint has_overdue(const wheel_t *w) noexcept nogil:
    """Whether timers were scheduled at or before now since the wheel was advanced to now."""
    return w.levels and w.level[0].weight[OVERDUE]


cdef inline int advance_step(wheel_t *w, uint64_t now, uint64_t limit, uint64_t quota) noexcept nogil:
    """Go to tick `now` and collect, in order, until `limit` timers are ready or about `quota` moved.

    If some timers are overdue, nothing that was due by the last `now` may be left.
    """
    cdef uint64_t before = w.cursor
    if has_overdue(w):                  # these come after the timers held back then, before those due since
        if unlikely(w.level[0].weight[OVERDUE] > quota):
            if begin_overdue(w):
                return -1
        elif collect(w, OVERDUE, w.now, NEVER):
            return -1
    w.now = now
    if w.in_use & 2:                    # prefetched here: `spread` takes it after the collection
        fetch_second(w, 1, <uint32_t>((w.cursor >> DIGIT_BITS) + 1) & SLOT_MASK)
    if collect_until(w, now, limit, quota):
        return -1
    if w.cursor > now and w.cursor != before:
        spread(w, w.cursor - before, quota)
    return 0


cdef inline bint must_wait(const wheel_t *w, uint64_t limit) noexcept nogil:
    """Whether overdue timers must wait until earlier due ones are collected, or handed out."""
    return has_overdue(w) and (w.cursor <= w.now or w.in_pieces or w.ready_live >= limit)


cdef inline int wheel_advance_some(wheel_t *w, uint64_t now, uint64_t limit, uint64_t quota) noexcept nogil:
    """As wheel_advance, but at most about `quota` timers are moved or collected: for callers that must not pause.

    If that does not reach the due timers, none may be ready, and wheel_next_deadline says `now`: call it again. While
    overdue timers must wait, the wheel stays at its `now`: they come before timers that came due since.
    """
    if must_wait(w, limit):
        return collect_until(w, w.now, limit, quota)
    return advance_step(w, now, limit, quota)


cdef inline bint is_short(const wheel_t *w, uint64_t limit) noexcept nogil:
    """Whether fewer than `limit` timers are ready, though more may be due."""
    return (w.cursor <= w.now or w.in_pieces) and w.ready_live < limit


cdef inline int wheel_advance(wheel_t *w, uint64_t now, uint64_t limit) noexcept nogil:
    """Go to tick `now` >= w.now and collect what is due until `limit` timers are ready, for wheel_pop.

    -1 if memory is out: `now` may have moved, nothing is lost, and the same call goes on.
    O(timers collected and cascaded), whatever the distance.
    """
    if must_wait(w, NEVER) and collect_until(w, w.now, NEVER, NEVER):
        return -1
    while True:
        if advance_step(w, now, limit, QUOTA):
            return -1
        if not is_short(w, limit):
            return 0


cdef inline int wheel_collect_more(wheel_t *w, uint64_t limit) noexcept nogil:
    """Collect the timers that the last wheel_advance has left, until `limit` are ready; -1, as there, without memory.

    Timers that were scheduled for the past or for `now` since then stay for the next advance.
    """
    while is_short(w, limit):
        if collect_until(w, w.now, limit, QUOTA):
            return -1
    return 0


cdef inline uint64_t wheel_peek(const wheel_t *w, uint64_t *position, uint64_t *payloads, uint64_t n) noexcept nogil:
    """Write the payloads of up to `n` ready timers from `*position` on, first 0, and leave them; return how many."""
    cdef uint64_t seen = 0, at = w.ready_begin + position[0]
    while seen < n and at < w.ready_end:
        if w.ready[at]:
            payloads[seen] = w.arena.nodes[w.ready[at]].payload
            seen += 1
        at += 1
    position[0] = at - w.ready_begin
    return seen


cdef inline uint64_t wheel_pop(wheel_t *w, uint64_t *payloads, uint64_t n) noexcept nogil:
    """Take up to `n` ready timers out of the wheel, in order, and write their payloads; return how many."""
    cdef uint64_t popped = 0
    cdef uint32_t index
    while popped < n and w.ready_begin < w.ready_end:
        index = w.ready[w.ready_begin]
        w.ready_begin += 1
        if index == 0:
            continue
        if w.ready_begin + LOOK_AHEAD < w.ready_end:
            prefetch(w.arena.nodes + w.ready[w.ready_begin + LOOK_AHEAD])
        payloads[popped] = w.arena.nodes[index].payload
        popped += 1
        arena_give(&w.arena, index)
    w.ready_live -= popped
    w.live -= popped
    if w.ready_live == 0:
        w.ready_begin = w.ready_end = 0
        if w.ready_room + w.scratch_room > KEEP:
            free_buffers(w)
    return popped


cdef inline bint is_behind(const wheel_t *w) noexcept nogil:
    """Whether the last wheel_advance has left timers to collect, or to hand out."""
    return w.cursor <= w.now or w.ready_live != 0 or w.in_pieces != 0


cdef inline uint64_t wheel_next_deadline(wheel_t *w) noexcept nogil:
    """A tick no later than the earliest deadline and no earlier than now; NEVER if nothing is pending. O(levels)."""
    if w.live == 0:
        return NEVER
    if is_behind(w) or w.level[0].weight[OVERDUE]:
        return w.now
    return next_event(w)
