# All invariants in arena.pxd and levels.pxd, recomputed slowly and compared.

from libc.stdint cimport uint32_t, uint64_t

from pywheel.core.arena cimport GEN_BITS, arena_t, is_live, node_t
from pywheel.core.bits cimport DIGIT_BITS, SLOT_MASK, SLOTS
from pywheel.core.levels cimport ALL_SLOTS, HEAD, LATE, LEVEL_SHIFT, LEVELS, LIST_BITS, READY, STAGED
from pywheel.core.levels cimport level_t, piece_t, wheel_t


cdef inline bint has_bit(const uint64_t *map, uint32_t i) noexcept nogil:
    return map[i >> 6] >> (i & 63) & 1


cdef inline const char *check_arena(const wheel_t *w) noexcept nogil:
    cdef const arena_t *a = &w.arena
    cdef uint64_t live = 0, free = 0
    cdef uint32_t i, leaves = (a.capacity + 63) >> 6, mids = (leaves + 63) >> 6
    for i in range(1, a.used):
        live += is_live(a.nodes + i)
        free += has_bit(a.leaf, i)
        if is_live(a.nodes + i) and has_bit(a.leaf, i):
            return "a live node is marked as free"
        if a.nodes[i].stamp >> GEN_BITS > w.sequence:
            return "a sequence number was never given out"
    for i in range(a.spares):
        if a.spare[i] >= a.used or is_live(a.nodes + a.spare[i]) or has_bit(a.leaf, a.spare[i]):
            return "a spare node is in use, or free twice"
    if live != w.live:
        return "the live nodes are not as many as the count says"
    if free != a.free:
        return "the free nodes are not as many as the count says"
    if a.used and a.used - 1 != live + a.spares + free + a.retired:
        return "a node is neither live nor spare nor free nor retired"
    for i in range(leaves):
        if has_bit(a.mid, i) != (a.leaf[i] != 0):
            return "the second bitmap does not sum up the first"
    for i in range(mids):
        if has_bit(a.top, i) != (a.mid[i] != 0):
            return "the third bitmap does not sum up the second"
    return NULL


cdef inline const char *check_node(const wheel_t *w, const node_t *node, int l, uint32_t slot) noexcept nogil:
    cdef uint64_t here = w.cursor >> DIGIT_BITS * l, distance
    if not is_live(node):
        return "a free node is in a list"
    if slot >= SLOTS:
        if node.deadline > w.now:
            return "a timer of the future is in the overdue slot"
        return NULL
    distance = (slot - here) & SLOT_MASK
    if l and not distance:
        distance = SLOTS
    if node.deadline < (here + distance) << DIGIT_BITS * l:
        return "a timer stands in a slot after its deadline"
    return NULL


cdef inline const char *check_list(const wheel_t *w, int l, uint32_t slot, uint32_t fan,
                                   uint64_t *count) noexcept nogil:
    cdef uint32_t prev = HEAD | l << LEVEL_SHIFT | slot << LIST_BITS | fan
    cdef uint32_t index = w.level[l].heads[(slot << w.list_bits) + fan]
    cdef const node_t *node
    cdef const char *wrong
    while index:
        if index >= w.arena.used:
            return "a list leads out of the pool"
        node = w.arena.nodes + index
        if node.prev != prev:
            return "a node does not lead back to the one before it"
        wrong = check_node(w, node, l, slot)
        if wrong != NULL:
            return wrong
        count[0] += 1
        if count[0] > w.live:
            return "the lists hold more nodes than are live"
        prev, index = index, node.next
    return NULL


cdef inline const char *check_levels(const wheel_t *w, uint64_t *total) noexcept nogil:
    cdef int l
    cdef uint32_t slot, fan
    cdef uint64_t before
    cdef const char *wrong
    for l in range(w.levels):
        for slot in range(ALL_SLOTS):
            before = total[0]
            for fan in range(<uint32_t>1 << w.list_bits):
                wrong = check_list(w, l, slot, fan, total)
                if wrong != NULL:
                    return wrong
            if w.level[l].weight[slot] < total[0] - before:
                return "a slot weighs less than it holds"
            if (w.level[l].weight[slot] != 0) != (total[0] != before):
                return "a weight does not say whether its slot is empty"
            if has_bit(w.level[l].occupied, slot) != (total[0] != before):
                return "an occupied bit is wrong"
            if slot < SLOTS and total[0] != before and not w.in_use >> l & 1:
                return "an occupied level is not marked as in use"
            if l and slot >= SLOTS and total[0] != before:
                return "an upper level has an overdue slot"
            if slot == LATE and total[0] != before and w.in_pieces != LATE + 1:
                return "late timers are not being taken in pieces"
    return NULL


cdef inline const char *check_ready(const wheel_t *w, uint64_t *total) noexcept nogil:
    cdef uint64_t i, count = 0
    cdef const node_t *node
    for i in range(w.ready_begin, w.ready_end):
        if w.ready[i]:
            node = w.arena.nodes + w.ready[i]
            if not is_live(node) or node.prev != READY or node.next != i:
                return "a collected node does not know its place"
            if node.deadline > w.now:
                return "a timer was collected early"
            count += 1
    if count != w.ready_live:
        return "the collected timers are not as many as the count says"
    total[0] += count
    return NULL


cdef inline const char *check_piece(const wheel_t *w, const piece_t *piece, uint64_t *count) noexcept nogil:
    cdef uint64_t i, deadline = 0, stamp = 0
    cdef const node_t *node
    for i in range(piece.at, piece.end):
        if w.staged[i]:
            node = w.arena.nodes + w.staged[i]
            if not is_live(node) or node.prev != STAGED or node.next != i:
                return "a node of a piece does not know its place"
            if node.deadline > w.now:
                return "a timer was put into a piece early"
            if node.deadline < deadline or (node.deadline == deadline and node.stamp < stamp):
                return "a piece is not in order"
            deadline, stamp = node.deadline, node.stamp
            count[0] += 1
    return NULL


cdef inline const char *check_pieces(const wheel_t *w, uint64_t *total) noexcept nogil:
    cdef uint64_t i, count = 0
    cdef const char *wrong
    for i in range(w.pieces):
        wrong = check_piece(w, &w.piece[i], &count)
        if wrong != NULL:
            return wrong
    if count != w.staged_live:
        return "the timers in pieces are not as many as the count says"
    if w.pieces and not w.in_pieces:
        return "there are pieces of no slot"
    total[0] += count
    return NULL


cdef inline const char *wheel_check(const wheel_t *w) noexcept nogil:
    """The first broken invariant of the wheel, or NULL. O(levels x slots + nodes)."""
    cdef uint64_t total = 0
    cdef const char *wrong = check_arena(w)
    if wrong == NULL:
        wrong = check_levels(w, &total)
    if wrong == NULL:
        wrong = check_ready(w, &total)
    if wrong == NULL:
        wrong = check_pieces(w, &total)
    if wrong == NULL and total != w.live:
        wrong = "a live node is in no list"
    if wrong == NULL and w.cursor > w.now + 1:
        wrong = "the cursor is ahead of time"
    return wrong
