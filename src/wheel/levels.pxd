# cython: cdivision=True
# The hierarchical timing wheel: plain C structs, no Python object, no GIL. Not locked: its owner does that.
#
# Time. `now` is the tick last advanced to, `cursor` the first tick whose timers have not been collected; it is now + 1
# but for the time when a limit holds timers back, and then less.
#
# Levels. Level l has 512 slots of 256**l ticks, two turns of the l-th digit of the tick; tick t lies in slot
# (t >> 8l) & 511. A timer goes to the level of its distance from the cursor, one lower if its slot there is the
# cursor's or the one after it:
#
#       level    slot, ticks    reach              level    slot, ticks    reach
#         0      1              256                  4      2**32          2**40
#         1      256            65 536               5      2**40          2**48
#         2      65 536         2**24                6      2**48          2**56
#         3      2**24          2**32                7      2**56          2**63 and more
#
# Invariants
#   a  On level l > 0 every occupied slot lies 1 .. 511 slots after the cursor's; on level 0, 0 .. 511.
#   b  A node stands in the slot of its deadline or in an earlier one: a later reschedule only writes the deadline, and
#      the node is placed again when the slot it stands in comes up. deadline >= the first tick of its slot, always.
#   c  Lists are in no order. The sequence number alone decides it: whatever comes due is sorted by it.
#   d  `weight` of a slot is at least the number of nodes in it, and 0 exactly when it is empty, as is its occupied bit.
#   e  Every live node is in one list of one slot, or in `ready`. deadline <= now: it is in `ready`, or in the overdue
#      slot, or in one that the cursor has not reached. deadline > now: in a slot.
#   f  A node's prev is the index before it, or HEAD | its list, or READY; with READY, next is its position in `ready`.
#
# Because of (c) the slot after the cursor's can be moved down ahead of time, a little at each tick, so that no tick
# pays for a whole slot; because of the eight lists of a slot, that walk waits for eight nodes at once instead of one.
# Hashed and hierarchical wheels: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987.

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from pywheel.core.arena cimport (GEN_BITS, arena_bytes, arena_find, arena_free, arena_give, arena_handle, arena_init,
                                 arena_reserve, arena_reset, arena_t, arena_take, gen_mask, is_live, node_t)
from pywheel.core.bits cimport (DIGIT_BITS, DIGIT_MASK, SLOT_MASK, SLOTS, WORDS, PyMem_RawFree, PyMem_RawMalloc,
                                PyMem_RawRealloc, aligned_resize, ctz, low_bits, msb, next_bit, prefetch, unlikely)
from pywheel.core.sort cimport pair_t, sort_keys, sort_pairs

cdef extern from *:
    """
    #ifndef PYWHEEL_SEQ_LIMIT               /* renumber from here on; below 2**(64 - PYWHEEL_GEN_BITS) */
    #define PYWHEEL_SEQ_LIMIT ((1ULL << 38) - 1)
    #endif
    #ifndef PYWHEEL_FAN_OUT_AT              /* timers from which eight lists a slot pay for their memory */
    #define PYWHEEL_FAN_OUT_AT 16384
    #endif
    #define PYWHEEL_HEAD 0x80000000u
    #define PYWHEEL_READY 0xFFFFFFFFu
    #define PYWHEEL_NEVER UINT64_MAX
    """
    const uint64_t SEQ_LIMIT "((uint64_t)PYWHEEL_SEQ_LIMIT)"
    const uint64_t FAN_OUT_AT "((uint64_t)PYWHEEL_FAN_OUT_AT)"
    const uint32_t HEAD "PYWHEEL_HEAD"
    const uint32_t READY "PYWHEEL_READY"
    const uint64_t NEVER "PYWHEEL_NEVER"    # later than every tick

cdef enum:
    LEVELS = 8
    LISTS = 8
    LIST_BITS = 3
    OVERDUE = SLOTS             # one more slot, on level 0: timers scheduled at or before now
    LEVEL_SHIFT = 13            # a list's number is level << 13 | slot << 3 | list
    LOOK_AHEAD = 16             # how many nodes ahead a loop over timers prefetches
    KEEP = 65536                # buffers with room for more timers than this are given back when empty


ctypedef struct level_t:
    uint64_t occupied[WORDS + 1]
    uint32_t *heads             # first index of each list: SLOTS + 1 slots of 1 or LISTS
    uint32_t *weight            # of each slot
    void *block

ctypedef struct wheel_t:
    arena_t arena
    uint64_t now
    uint64_t cursor
    uint64_t live               # timers pending
    uint64_t sequence           # the one given last
    uint64_t renumber_at
    uint64_t fan_out_at
    int levels                  # allocated, from the bottom
    uint32_t in_use             # bit l is set if a slot of level l, the overdue one aside, may be occupied
    uint64_t reach              # deadlines less than this away from the cursor fit in them
    int list_bits               # 0, or LIST_BITS from fan_out_at timers on
    uint32_t list_mask          # 2**list_bits - 1
    level_t level[LEVELS]
    uint32_t *ready             # collected, in order, not yet popped; 0 where one was cancelled
    uint64_t ready_room
    uint64_t ready_begin
    uint64_t ready_end
    uint64_t ready_live
    uint64_t *scratch
    uint64_t scratch_room


# ---- memory -----------------------------------------------------------------------------------------------------

cdef inline void wheel_init(wheel_t *w, uint64_t start, uint64_t number) noexcept nogil:
    """An empty wheel at tick `start`. `number` tells wheels apart, so that a handle of one is unknown to another."""
    memset(w, 0, sizeof(wheel_t))
    arena_init(&w.arena, number)
    w.now = start
    w.cursor = start + 1
    w.renumber_at = SEQ_LIMIT
    w.fan_out_at = FAN_OUT_AT


cdef inline void free_buffers(wheel_t *w) noexcept nogil:
    PyMem_RawFree(w.ready)
    PyMem_RawFree(w.scratch)
    w.ready, w.ready_room = NULL, 0
    w.scratch, w.scratch_room = NULL, 0


cdef inline void wheel_free(wheel_t *w) noexcept nogil:
    cdef int l
    for l in range(w.levels):
        PyMem_RawFree(w.level[l].block)
    free_buffers(w)
    arena_free(&w.arena)


cdef inline void wheel_detach(wheel_t *w, uint64_t start, uint64_t number, wheel_t *old) noexcept nogil:
    """Move all to `old`, for wheel_free, and leave an empty wheel at tick `start` that knows no handle of before."""
    memcpy(old, w, sizeof(wheel_t))
    arena_reset(&w.arena, number)
    cdef arena_t arena = w.arena
    wheel_init(w, start, number)
    w.arena = arena


cdef inline size_t wheel_bytes(const wheel_t *w) noexcept nogil:
    """Memory the wheel owns, without the struct itself."""
    cdef size_t slots = w.levels * (SLOTS + 1)
    return (arena_bytes(&w.arena) + (slots << w.list_bits) * sizeof(uint32_t) + slots * sizeof(uint32_t)
            + w.ready_room * sizeof(uint32_t) + w.scratch_room * sizeof(uint64_t))


cdef inline int new_level(level_t *level, int list_bits) noexcept nogil:
    cdef size_t heads = (<size_t>SLOTS + 1) << list_bits
    cdef size_t size = (heads + SLOTS + 1) * sizeof(uint32_t)
    level.block = NULL
    level.heads = <uint32_t *>aligned_resize(&level.block, NULL, 0, size)
    if level.heads == NULL:
        return -1
    memset(level.heads, 0, size)
    level.weight = level.heads + heads
    return 0


cdef inline int add_levels(wheel_t *w, int count) noexcept nogil:
    """Have levels 0 .. count - 1; -1 if memory is out."""
    while w.levels < count:
        if new_level(&w.level[w.levels], w.list_bits):
            return -1
        w.levels += 1
        w.reach = NEVER if w.levels == LEVELS else (<uint64_t>1) << DIGIT_BITS * w.levels
    return 0


cdef inline void fan_out(wheel_t *w, uint64_t live) noexcept nogil:
    """Give each slot LISTS lists. Without memory for that one list goes on serving, and it is tried again later."""
    cdef level_t grown[LEVELS]
    cdef level_t *level
    cdef int l, slot, made = 0
    w.fan_out_at = 2 * live
    while made < w.levels and new_level(&grown[made], LIST_BITS) == 0:
        made += 1
    if made < w.levels:
        for l in range(made):
            PyMem_RawFree(grown[l].block)
        return
    for l in range(w.levels):
        level = &w.level[l]
        for slot in range(SLOTS + 1):           # nodes stay where they are: the old list is list 0 of the new ones
            grown[l].heads[slot << LIST_BITS] = level.heads[slot]
            grown[l].weight[slot] = level.weight[slot]
        PyMem_RawFree(level.block)
        level.heads, level.weight, level.block = grown[l].heads, grown[l].weight, grown[l].block
    w.list_bits, w.list_mask = LIST_BITS, LISTS - 1
    w.fan_out_at = NEVER


cdef inline int reserve_scratch(wheel_t *w, uint64_t room) noexcept nogil:
    cdef uint64_t *grown
    if room > w.scratch_room:
        grown = <uint64_t *>PyMem_RawRealloc(w.scratch, room * sizeof(uint64_t))
        if grown == NULL:
            return -1
        w.scratch, w.scratch_room = grown, room
    return 0


cdef inline int reserve_ready(wheel_t *w, uint64_t more) noexcept nogil:
    cdef uint32_t *grown
    cdef uint64_t i, room
    if w.ready_end + more <= w.ready_room:
        return 0
    if w.ready_begin:
        for i in range(w.ready_begin, w.ready_end):
            w.ready[i - w.ready_begin] = w.ready[i]
            if w.ready[i]:
                w.arena.nodes[w.ready[i]].next = <uint32_t>(i - w.ready_begin)
        w.ready_end -= w.ready_begin
        w.ready_begin = 0
    room = w.ready_end + more
    if room > w.ready_room:
        room += room >> 1
        grown = <uint32_t *>PyMem_RawRealloc(w.ready, room * sizeof(uint32_t))
        if grown == NULL:
            return -1
        w.ready, w.ready_room = grown, room
    return 0


# ---- lists ------------------------------------------------------------------------------------------------------

cdef inline int level_of(uint64_t deadline, uint64_t cursor) noexcept nogil:
    cdef int level = msb((deadline - cursor) | 1) >> 3
    if level and (deadline >> DIGIT_BITS * level) - (cursor >> DIGIT_BITS * level) <= 1:
        level -= 1
    return level


cdef inline void push(wheel_t *w, uint32_t index, node_t *node, int level, uint32_t slot) noexcept nogil:
    cdef level_t *at = &w.level[level]
    cdef uint32_t fan = index & w.list_mask
    cdef uint32_t *head = at.heads + (slot << w.list_bits) + fan
    cdef uint32_t first = head[0], weight = at.weight[slot]
    node.next = first
    node.prev = HEAD | level << LEVEL_SHIFT | slot << LIST_BITS | fan
    w.arena.nodes[first].prev = index
    head[0] = index
    at.weight[slot] = weight + 1
    if unlikely(weight + 1 <= 1):               # the first one, or one more than can be counted
        w.in_use |= <uint32_t>1 << level
        at.occupied[slot >> 6] |= (<uint64_t>1) << (slot & 63)
        at.weight[slot] = weight | 1


cdef inline void place(wheel_t *w, uint32_t index, node_t *node) noexcept nogil:
    """Put a node, in no list so far, where its deadline belongs: deadline >= cursor."""
    cdef int level = level_of(node.deadline, w.cursor)
    push(w, index, node, level, <uint32_t>(node.deadline >> DIGIT_BITS * level) & SLOT_MASK)


cdef inline bint is_empty(const wheel_t *w, const uint32_t *heads) noexcept nogil:
    cdef uint32_t any = 0
    cdef int i
    for i in range(1 << w.list_bits):
        any |= heads[i]
    return any == 0


cdef inline void set_empty(level_t *level, uint32_t slot) noexcept nogil:
    level.occupied[slot >> 6] &= ~((<uint64_t>1) << (slot & 63))
    level.weight[slot] = 0


cdef inline void unlink_first(wheel_t *w, node_t *node) noexcept nogil:
    cdef uint32_t number = node.prev & ~HEAD, slot = (number >> LIST_BITS) & low_bits(LEVEL_SHIFT - LIST_BITS)
    cdef level_t *level = &w.level[number >> LEVEL_SHIFT]
    cdef uint32_t *heads = level.heads + (slot << w.list_bits)
    heads[number & (LISTS - 1)] = node.next
    w.arena.nodes[node.next].prev = node.prev
    if node.next == 0 and is_empty(w, heads):
        set_empty(level, slot)


cdef inline void unlink(wheel_t *w, node_t *node) noexcept nogil:
    if node.prev < HEAD:
        w.arena.nodes[node.prev].next = node.next
        w.arena.nodes[node.next].prev = node.prev
    elif node.prev != READY:
        unlink_first(w, node)
    else:
        w.ready[node.next] = 0
        w.ready_live -= 1


cdef inline uint64_t drain_lists(wheel_t *w, int level, uint32_t slot, uint64_t quota, uint64_t due, uint64_t *keys,
                                 int index_bits, int lists) noexcept nogil:
    cdef node_t *nodes = w.arena.nodes
    cdef level_t *at = &w.level[level]
    cdef uint32_t *heads = at.heads + slot * lists
    cdef uint32_t rest[LISTS]
    cdef uint32_t index, left, weight = at.weight[slot]
    cdef int i
    cdef uint64_t taken = 0, collected = 0
    cdef node_t *node
    for i in range(lists):
        rest[i] = heads[i]
        heads[i] = 0
        prefetch(nodes + rest[i])
    while True:
        left = 0
        for i in range(lists):
            index = rest[i]
            if index == 0:
                continue
            node = nodes + index
            rest[i] = node.next
            left |= node.next
            prefetch(nodes + node.next)
            taken += 1
            if node.deadline <= due:
                keys[collected] = (node.stamp >> GEN_BITS) << index_bits | index
                collected += 1
            else:
                place(w, index, node)
        if left == 0 or taken >= quota:
            break
    if left == 0:
        set_empty(at, slot)
        return collected
    for i in range(lists):
        heads[i] = rest[i]
        nodes[rest[i]].prev = HEAD | level << LEVEL_SHIFT | slot << LIST_BITS | i
    if weight != <uint32_t>-1:
        at.weight[slot] = weight - <uint32_t>taken
    return collected


cdef inline uint64_t drain(wheel_t *w, int level, uint32_t slot, uint64_t quota, uint64_t due, uint64_t *keys,
                           int index_bits) noexcept nogil:
    """Take about `quota` nodes out of a slot: those due by `due` to `keys`, as sequence and index, the rest to where
    they belong now, which is never this slot again. Return how many were due."""
    if w.list_bits:             # the compiler unrolls the one and simplifies the other
        return drain_lists(w, level, slot, quota, due, keys, index_bits, LISTS)
    return drain_lists(w, level, slot, quota, due, keys, index_bits, 1)


# ---- sequence ---------------------------------------------------------------------------------------------------

cdef inline int renumber(wheel_t *w) noexcept nogil:
    """Give the live timers the sequence numbers 1 .. live in the order they have; -1 if memory is out."""
    cdef uint64_t n = 0, i
    cdef uint32_t index
    cdef node_t *node
    cdef pair_t *pairs = <pair_t *>PyMem_RawMalloc(2 * w.live * sizeof(pair_t) + 1)
    if pairs == NULL:
        return -1
    for index in range(1, w.arena.used):
        node = w.arena.nodes + index
        if is_live(node):
            pairs[n].high, pairs[n].low = node.stamp >> GEN_BITS, index
            n += 1
    sort_pairs(pairs, n, pairs + n)
    for i in range(n):
        node = w.arena.nodes + pairs[i].low
        node.stamp = (i + 1) << GEN_BITS | (node.stamp & gen_mask())
    w.sequence = n
    PyMem_RawFree(pairs)
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


# ---- one timer --------------------------------------------------------------------------------------------------

cdef inline void settle(wheel_t *w, uint32_t index, node_t *node, uint64_t deadline) noexcept nogil:
    """Write the deadline and put the node, in no list so far, where it belongs."""
    node.deadline = deadline
    if unlikely(deadline <= w.now):
        push(w, index, node, 0, OVERDUE)
    else:
        place(w, index, node)


cdef inline uint64_t insert(wheel_t *w, uint32_t index, uint64_t sequence, uint64_t deadline,
                            uint64_t payload) noexcept nogil:
    """Make a timer of a node just taken; the caller counts it. Return its handle."""
    cdef node_t *node = w.arena.nodes + index
    cdef uint64_t generation = node.stamp
    node.stamp = sequence << GEN_BITS | generation
    node.payload = payload
    settle(w, index, node, deadline)
    return generation << 32 | index


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


# ---- time -------------------------------------------------------------------------------------------------------

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


cdef inline int collect(wheel_t *w, uint32_t slot, uint64_t due) noexcept nogil:
    """Collect what is due in a slot of level 0, in order; -1, with nothing changed, without memory."""
    cdef uint64_t room = min(w.level[0].weight[slot], w.live), n
    cdef int index_bits = msb(w.arena.used) + 1
    cdef uint64_t *keys
    if unlikely(w.sequence >> (64 - index_bits)) and renumber(w):       # a key must hold both: beyond 2**26 nodes
        return -1
    if reserve_ready(w, room) or reserve_scratch(w, 5 * room if slot == OVERDUE else 2 * room):
        return -1
    keys = w.scratch
    n = drain(w, 0, slot, NEVER, due, keys, index_bits)
    if slot == OVERDUE:
        sort_overdue(w, keys, n, index_bits)
    else:
        sort_keys(keys, n, keys + n, index_bits)
    hold(w, keys, n, low_bits(index_bits))
    return 0


cdef inline void move_cursor(wheel_t *w, uint64_t tick) noexcept nogil:
    """Go to `tick`, with no occupied slot before it; slots of the levels above that start there are moved down."""
    cdef int l
    cdef uint32_t slot
    w.cursor = tick
    if tick & DIGIT_MASK:
        return
    for l in range(msb(w.in_use | 1), 0, -1):           # from high to low: each fills the slots of the next
        slot = <uint32_t>(tick >> DIGIT_BITS * l) & SLOT_MASK
        if tick & low_bits(DIGIT_BITS * l) == 0 and w.level[l].occupied[slot >> 6] >> (slot & 63) & 1:
            drain(w, l, slot, NEVER, 0, NULL, 0)


cdef inline uint64_t next_event(wheel_t *w) noexcept nogil:
    """The first tick at which an occupied slot starts, of any level; NEVER if all are empty. O(levels)."""
    cdef uint64_t earliest = NEVER, here, start
    cdef uint32_t rest = w.in_use
    cdef int l, distance
    while rest:
        l = ctz(rest)
        rest &= rest - 1
        here = (w.cursor >> DIGIT_BITS * l) + (l > 0)
        distance = next_bit(w.level[l].occupied, <int>(here & SLOT_MASK))
        if distance < 0:
            w.in_use ^= <uint32_t>1 << l
            continue
        start = (here + distance) << DIGIT_BITS * l
        if start < earliest:
            earliest = start
    return earliest


cdef inline int collect_until(wheel_t *w, uint64_t until, uint64_t limit) noexcept nogil:
    """Collect tick by tick through `until`, or until `limit` timers are ready; -1 without memory."""
    cdef uint64_t tick
    while w.cursor <= until and w.ready_live < limit:
        tick = w.cursor
        if not w.levels or not w.level[0].occupied[(tick & SLOT_MASK) >> 6] >> (tick & 63) & 1:
            tick = next_event(w)
            if tick > until:
                move_cursor(w, until + 1)
                return 0
            move_cursor(w, tick)
            continue            # what was moved down may be due at this very tick, or not before long
        if collect(w, <uint32_t>(tick & SLOT_MASK), tick):
            return -1
        move_cursor(w, tick + 1)
    return 0


cdef inline void spread(wheel_t *w, uint64_t elapsed) noexcept nogil:
    """Move down ahead of time part of the slots that come next, so that a step of `elapsed` ticks leaves in time."""
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
            drain(w, l, slot, weight // (left // elapsed + 1) + LISTS, 0, NULL, 0)


cdef inline int wheel_advance(wheel_t *w, uint64_t now, uint64_t limit) noexcept nogil:
    """Go to tick `now` >= w.now and collect what is due until `limit` timers are ready, for wheel_pop.

    -1 if memory is out: `now` has moved, nothing is lost, and the same call goes on.
    O(timers collected and cascaded), whatever the distance.
    """
    cdef uint64_t before = w.cursor
    if w.levels and w.level[0].weight[OVERDUE]:
        # These were due at the last `now` already: they come after what was held back then, before what came due since.
        if collect_until(w, w.now, NEVER) or collect(w, OVERDUE, w.now):
            return -1
    w.now = now
    if collect_until(w, now, limit):
        return -1
    if w.cursor > now and w.cursor != before:
        spread(w, w.cursor - before)
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


cdef inline uint64_t wheel_next_deadline(wheel_t *w) noexcept nogil:
    """A tick no later than the earliest deadline and no earlier than now; NEVER if nothing is pending. O(levels)."""
    if w.live == 0:
        return NEVER
    if w.cursor <= w.now or w.ready_live or w.level[0].weight[OVERDUE]:
        return w.now
    return next_event(w)
