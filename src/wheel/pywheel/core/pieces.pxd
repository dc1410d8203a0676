# cython: cdivision=True
# A slot of level 0 with more timers than may be collected at once is taken out in pieces, each sorted when it comes.
# When the slot is complete, the pieces are merged into `ready`, as many timers as are requested. So no step works on
# more than a piece, and the order is that of the whole slot.

from libc.stdint cimport uint32_t, uint64_t

from pywheel.core.bits cimport PyMem_RawRealloc
from pywheel.core.levels cimport (HEAD, KEEP, LATE, LIST_BITS, OVERDUE, READY, STAGED, free_pieces, level_t, piece_t,
                                  reserve_ready, set_empty, wheel_t)


cdef inline int begin_pieces(wheel_t *w, uint32_t slot) noexcept nogil:
    """Take the timers of a slot in pieces from here on; -1, with nothing changed, without memory."""
    cdef uint64_t room = min(w.level[0].weight[slot], w.live)
    cdef uint32_t *grown
    if room > w.staged_room:
        grown = <uint32_t *>PyMem_RawRealloc(w.staged, room * sizeof(uint32_t))
        if grown == NULL:
            return -1
        w.staged, w.staged_room = grown, room
    w.in_pieces = slot + 1
    return 0


cdef inline int begin_overdue(wheel_t *w) noexcept nogil:
    """Do the same for the overdue slot. Its timers move to another slot first: later timers are none of these."""
    cdef level_t *level = &w.level[0]
    cdef uint32_t *heads = level.heads + (OVERDUE << w.list_bits)
    cdef uint32_t *late = level.heads + (LATE << w.list_bits)
    cdef uint32_t i
    if begin_pieces(w, OVERDUE):
        return -1
    w.in_pieces = LATE + 1
    for i in range(<uint32_t>1 << w.list_bits):
        late[i] = heads[i]
        heads[i] = 0
        w.arena.nodes[late[i]].prev = HEAD | LATE << LIST_BITS | i
    level.weight[LATE] = level.weight[OVERDUE]
    level.occupied[LATE >> 6] |= (<uint64_t>1) << (LATE & 63)
    set_empty(level, OVERDUE)
    return 0


cdef inline int reserve_piece(wheel_t *w) noexcept nogil:
    cdef piece_t *grown
    cdef uint64_t room
    if w.pieces == w.pieces_room:
        room = 2 * w.pieces_room + 16
        grown = <piece_t *>PyMem_RawRealloc(w.piece, room * sizeof(piece_t))
        if grown == NULL:
            return -1
        w.piece, w.pieces_room = grown, room
    return 0


cdef inline void add_piece(wheel_t *w, const uint64_t *keys, uint64_t n, uint64_t index_mask) noexcept nogil:
    """Keep the taken timers, in order, as one more piece."""
    cdef uint64_t i
    cdef uint32_t index
    if n == 0:
        return
    for i in range(n):
        index = <uint32_t>(keys[i] & index_mask)
        w.arena.nodes[index].prev = STAGED
        w.arena.nodes[index].next = <uint32_t>(w.staged_end + i)
        w.staged[w.staged_end + i] = index
    w.piece[w.pieces].at = w.staged_end
    w.staged_end += n
    w.staged_live += n
    w.piece[w.pieces].end = w.staged_end
    w.pieces += 1


cdef inline bint find_first(const wheel_t *w, piece_t *piece) noexcept nogil:
    """Go to a piece's next timer that was not cancelled; False if none is left."""
    cdef uint32_t index
    while piece.at < piece.end:
        index = w.staged[piece.at]
        if index:
            piece.deadline, piece.stamp = w.arena.nodes[index].deadline, w.arena.nodes[index].stamp
            return True
        piece.at += 1
    return False


cdef inline bint comes_first(const piece_t *a, const piece_t *b) noexcept nogil:
    return a.deadline < b.deadline or (a.deadline == b.deadline and a.stamp < b.stamp)


cdef inline void sift(wheel_t *w, uint64_t i) noexcept nogil:
    """Move a piece down the heap to its place."""
    cdef piece_t piece = w.piece[i]
    cdef uint64_t child = 2 * i + 1
    while child < w.pieces:
        if child + 1 < w.pieces and comes_first(&w.piece[child + 1], &w.piece[child]):
            child += 1
        if not comes_first(&w.piece[child], &piece):
            break
        w.piece[i] = w.piece[child]
        i, child = child, 2 * child + 1
    w.piece[i] = piece


cdef inline void heap_pieces(wheel_t *w) noexcept nogil:
    """Make a heap of the pieces, by their first timers. Needed again after the stamps have changed."""
    cdef uint64_t i, kept = 0
    for i in range(w.pieces):
        if find_first(w, &w.piece[i]):
            w.piece[kept] = w.piece[i]
            kept += 1
    w.pieces = kept
    for i in range(kept // 2, 0, -1):
        sift(w, i - 1)
    w.merging = True


cdef inline int merge_pieces(wheel_t *w, uint64_t limit) noexcept nogil:
    """Put timers at the end of `ready` until `limit` are there; -1, with nothing changed, without memory.

    The slot is finished if `in_pieces` is 0 afterwards.
    """
    cdef uint32_t index
    if w.ready_live < limit and reserve_ready(w, min(limit - w.ready_live, w.staged_live)):
        return -1
    while w.staged_live and w.ready_live < limit:
        index = w.staged[w.piece[0].at]
        if index:                                       # otherwise it was cancelled since it came to the top
            w.staged[w.piece[0].at] = 0
            w.arena.nodes[index].prev = READY
            w.arena.nodes[index].next = <uint32_t>w.ready_end
            w.ready[w.ready_end] = index
            w.ready_end += 1
            w.ready_live += 1
            w.staged_live -= 1
        if not find_first(w, &w.piece[0]):
            w.pieces -= 1
            w.piece[0] = w.piece[w.pieces]
        sift(w, 0)
    if w.staged_live == 0:
        w.in_pieces = 0
        w.merging = False
        w.pieces = w.staged_end = 0
        if w.staged_room > KEEP:
            free_pieces(w)
    return 0
