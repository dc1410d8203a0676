# cython: cdivision=True
# The hierarchical timing wheel: plain C structs, no Python object, no GIL. Not locked: its owner does that.
#
# Time. `now` is the tick last advanced to, `cursor` the first tick whose timers have not been collected. It is now + 1;
# only while a limit holds timers back it is less.
#
# Levels. Level l has 512 slots of 256**l ticks, two turns of the l-th digit of the tick; tick t lies in slot
# (t >> 8l) & 511. A timer goes to the highest level on which its slot is sure to lie behind the one after the cursor's:
# the level of half its distance.
#
#       level    slot, ticks    reach              level    slot, ticks    reach
#         0      1              512                  4      2**32          2**41
#         1      256            2**17                5      2**40          2**49
#         2      65 536         2**25                6      2**48          2**57
#         3      2**24          2**33                7      2**56          2**63 and more
#
# Invariants
#   a  On level l > 0 every occupied slot lies 1 .. 512 slots after the cursor's; on level 0, 0 .. 511.
#   b  A node stands in the slot of its deadline or in an earlier one: a later reschedule only writes the deadline, and
#      the node is placed again when the slot it stands in comes up. deadline >= the first tick of its slot, always.
#   c  Lists are in no order. The sequence number alone decides it: due timers are sorted by it.
#   d  `weight` of a slot is at least the number of nodes in it, and 0 exactly when it is empty, as is its occupied bit.
#   e  Every live node is in one list of one slot, or in `ready`, or in `staged`. deadline <= now: it is in one of these
#      two, or in the overdue slot, or in one that the cursor has not reached. deadline > now: in a slot.
#   f  A node's prev is the index before it, or HEAD | its list, or READY or STAGED; with these, next is its position in
#      `ready` or in `staged`.
#   g  `staged` holds the timers taken so far of one slot, `in_pieces` - 1, which was heavier than the quota: that of
#      the cursor, or LATE, which takes overdue timers for that. Each piece is in order. No new timer comes to that
#      slot.
#
# Because of (c) the slot after the cursor's can be moved down ahead of time, a little at each tick, so that no tick
# pays for a whole slot; because of the sixteen lists of a slot, that walk waits for sixteen nodes at once.
# Hashed and hierarchical wheels: Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987.

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from pywheel.core.arena cimport GEN_BITS, arena_bytes, arena_free, arena_init, arena_reset, arena_t, node_t
from pywheel.core.bits cimport (DIGIT_BITS, SLOT_MASK, SLOTS, WORDS, PyMem_RawFree, PyMem_RawRealloc, aligned_resize,
                                low_bits, msb, prefetch, unlikely, use_huge_pages)

cdef extern from *:
    """
    #ifndef PYWHEEL_SEQ_LIMIT               /* renumber from here on; below 2**(64 - PYWHEEL_GEN_BITS) */
    #define PYWHEEL_SEQ_LIMIT ((1ULL << 38) - 1)
    #endif
    #ifndef PYWHEEL_FAN_OUT_AT              /* timers from which sixteen lists a slot pay for their memory */
    #define PYWHEEL_FAN_OUT_AT 32768
    #endif
    #define PYWHEEL_HEAD 0x80000000u
    #define PYWHEEL_READY 0xFFFFFFFFu
    #define PYWHEEL_STAGED 0xFFFFFFFEu
    #define PYWHEEL_NEVER UINT64_MAX
    """
    const uint64_t SEQ_LIMIT "((uint64_t)PYWHEEL_SEQ_LIMIT)"
    const uint64_t FAN_OUT_AT "((uint64_t)PYWHEEL_FAN_OUT_AT)"
    const uint32_t HEAD "PYWHEEL_HEAD"
    const uint32_t READY "PYWHEEL_READY"
    const uint32_t STAGED "PYWHEEL_STAGED"
    const uint64_t NEVER "PYWHEEL_NEVER"    # later than every tick

cdef enum:
    LEVELS = 8
    LISTS = 16
    LIST_BITS = 4
    OVERDUE = SLOTS             # one more slot, on level 0: timers scheduled at or before now
    LATE = SLOTS + 1            # another one, for overdue timers that are being taken in pieces
    ALL_SLOTS = SLOTS + 2
    LEVEL_SHIFT = 14            # a list's number is level << 14 | slot << 4 | list
    LOOK_AHEAD = 16             # how many nodes ahead a loop over timers prefetches
    KEEP = 65536                # buffers with room for more timers than this are freed when empty


ctypedef struct level_t:
    uint64_t occupied[WORDS + 1]
    uint32_t *heads             # first index of each list: ALL_SLOTS slots of 1 or LISTS
    uint32_t *weight            # of each slot
    void *block

ctypedef struct piece_t:
    uint64_t deadline           # of its first remaining timer, and the stamp, while it is being merged
    uint64_t stamp
    uint64_t at                 # position of that timer in `staged`
    uint64_t end                # and of the end of the piece

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
    uint32_t *staged            # as `ready`: taken out of a slot that is not completely taken, or merged into `ready`
    uint64_t staged_room
    uint64_t staged_end
    uint64_t staged_live
    piece_t *piece              # of `staged`; a heap while they are merged
    uint64_t pieces_room
    uint64_t pieces
    uint32_t in_pieces          # 1 + the slot that is taken in pieces, or 0
    bint merging
    uint64_t touched              # timers that were taken out of a slot so far; for tests


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


cdef inline void free_pieces(wheel_t *w) noexcept nogil:
    PyMem_RawFree(w.staged)
    PyMem_RawFree(w.piece)
    w.staged, w.staged_room = NULL, 0
    w.piece, w.pieces_room = NULL, 0


cdef inline void wheel_free(wheel_t *w) noexcept nogil:
    cdef int l
    for l in range(w.levels):
        PyMem_RawFree(w.level[l].block)
    free_buffers(w)
    free_pieces(w)
    arena_free(&w.arena)


cdef inline void wheel_detach(wheel_t *w, uint64_t start, uint64_t number, wheel_t *old) noexcept nogil:
    """Move everything to `old`, for wheel_free; leave an empty wheel at tick `start` that knows no earlier handle."""
    memcpy(old, w, sizeof(wheel_t))
    arena_reset(&w.arena, number)
    cdef arena_t arena = w.arena
    wheel_init(w, start, number)
    w.arena = arena


cdef inline size_t wheel_bytes(const wheel_t *w) noexcept nogil:
    """Memory the wheel owns, without the struct itself."""
    cdef size_t slots = w.levels * ALL_SLOTS
    return (arena_bytes(&w.arena) + (slots << w.list_bits) * sizeof(uint32_t) + slots * sizeof(uint32_t)
            + w.ready_room * sizeof(uint32_t) + w.scratch_room * sizeof(uint64_t)
            + w.staged_room * sizeof(uint32_t) + w.pieces_room * sizeof(piece_t))


cdef inline int new_level(level_t *level, int list_bits) noexcept nogil:
    cdef size_t heads = <size_t>ALL_SLOTS << list_bits
    cdef size_t size = (heads + ALL_SLOTS) * sizeof(uint32_t)
    level.block = NULL
    level.heads = <uint32_t *>aligned_resize(&level.block, NULL, 0, size)
    if level.heads == NULL:
        return -1
    memset(level.heads, 0, size)
    level.weight = level.heads + heads
    return 0


cdef inline int add_levels(wheel_t *w, int count) noexcept nogil:
    """Allocate levels 0 .. count - 1; -1 if memory is out."""
    while w.levels < count:
        if new_level(&w.level[w.levels], w.list_bits):
            return -1
        w.levels += 1
        w.reach = NEVER if w.levels == LEVELS else (<uint64_t>2) << DIGIT_BITS * w.levels
    return 0


cdef inline void fan_out(wheel_t *w, uint64_t live) noexcept nogil:
    """Give each slot LISTS lists. Without memory one list goes on serving, and a later call tries again."""
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
        for slot in range(ALL_SLOTS):           # nodes stay where they are: the old list is list 0 of the new ones
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
        use_huge_pages(grown, room * sizeof(uint64_t))
        w.scratch, w.scratch_room = grown, room
    return 0


cdef inline int reserve_ready(wheel_t *w, uint64_t more) noexcept nogil:
    cdef uint32_t *grown
    cdef uint64_t i, room
    if w.ready_live == 0:               # the others were cancelled
        w.ready_begin = w.ready_end = 0
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
        use_huge_pages(grown, room * sizeof(uint32_t))
        w.ready, w.ready_room = grown, room
    return 0


# ---- lists ------------------------------------------------------------------------------------------------------

cdef inline int level_of(uint64_t deadline, uint64_t cursor) noexcept nogil:
    return (msb((deadline - cursor) | 2) - 1) >> 3


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
    """Put a node that is in no list where its deadline belongs: deadline >= cursor."""
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
    elif node.prev < STAGED:
        unlink_first(w, node)
    elif node.prev == READY:
        w.ready[node.next] = 0
        w.ready_live -= 1
    else:
        w.staged[node.next] = 0
        w.staged_live -= 1


cdef inline void fetch_first(const wheel_t *w, int level, uint32_t slot) noexcept nogil:
    """Prefetch the first node of each list of a slot, so that a later drain does not wait for them."""
    cdef const uint32_t *heads = w.level[level].heads + (slot << w.list_bits)
    cdef int i
    for i in range(1 << w.list_bits):
        prefetch(w.arena.nodes + heads[i])


cdef inline void fetch_second(const wheel_t *w, int level, uint32_t slot) noexcept nogil:
    """Prefetch the second node of each list of a slot. The first ones must be in the cache already."""
    cdef const uint32_t *heads = w.level[level].heads + (slot << w.list_bits)
    cdef int i
    for i in range(1 << w.list_bits):
        prefetch(w.arena.nodes + w.arena.nodes[heads[i]].next)


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
    w.touched += taken
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
    """Take about `quota` nodes out of a slot: those due by `due` go to `keys`, as sequence and index, the others to
    their new places, which are never in this slot. Return how many were due."""
    if w.list_bits:             # the compiler unrolls the one and simplifies the other
        return drain_lists(w, level, slot, quota, due, keys, index_bits, LISTS)
    return drain_lists(w, level, slot, quota, due, keys, index_bits, 1)
