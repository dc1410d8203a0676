# The node pool: one growing array of 32-byte nodes, addressed by 32-bit index, and a bitmap of the free ones.
#
# Invariants
#   nodes[0]         is no node: index 0 means "none", and its links may be written to, which saves a branch.
#   nodes[1..used)   have been used; the rest has not, and costs address space, not memory, unless it was touched ahead.
#   stamp            sequence << GEN_BITS | generation. Sequence 0 says the node is free.
#   generation       starts at `first_generation`, goes up by one at each release, and never comes round: a node whose
#                    next generation would be 0 is retired, so a stale handle stays stale for good.
#   key              scrambles handles. A handle of another pool, unscrambled with the wrong key, stands for any
#                    generation and index: for a given live node in one case of 2**(KEY_BITS - 1).
#   spare            a stack of free nodes: the last ones given back, which are likely still in the cache.
#   leaf, mid, top   the other free nodes: bit i of leaf says that nodes[i] is one, bit i of mid that leaf[i] != 0, bit
#                    i of top that mid[i] != 0.
#
# A bitmap, not a list through the free nodes: they are handed out in index order whatever the order they were freed in,
# so timers scheduled together lie together again, and taking one never waits for the memory of another.

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from pywheel.core.bits cimport (PyMem_RawCalloc, PyMem_RawFree, PyMem_RawRealloc, ctz, free_large, large_resize,
                                likely, low_bits, msb, unlikely)

cdef extern from *:
    """
    #ifndef PYWHEEL_GEN_BITS
    #define PYWHEEL_GEN_BITS 26
    #endif
    #ifndef PYWHEEL_INDEX_LIMIT             /* an index with the top bit set stands for a list head */
    #define PYWHEEL_INDEX_LIMIT 0x7FFFFFFF
    #endif
    """
    const int GEN_BITS "PYWHEEL_GEN_BITS"
    const uint64_t INDEX_LIMIT "((uint64_t)PYWHEEL_INDEX_LIMIT)"

cdef enum:
    DOUBLE_UP_TO = 65536
    KEY_BITS = 60               # of a handle: a Python int of two digits
    MOST_SPARE = 1024           # 32 KiB of nodes: more would not be in the cache, and in no order
    PAGE_NODES = 128            # in the smallest page, 4 KiB


ctypedef struct node_t:
    uint64_t deadline
    uint64_t payload
    uint64_t stamp
    uint32_t next
    uint32_t prev

ctypedef struct arena_t:
    node_t *nodes
    void *block                 # what the allocator gave; nodes is its first cache line
    size_t mapped               # bytes, if it is a mapping
    uint32_t capacity
    uint32_t used
    uint32_t *spare
    uint32_t spares
    uint32_t spare_room
    uint32_t free               # bits set in leaf
    uint32_t retired
    uint32_t cursor             # the leaf word that served last
    uint32_t first_generation
    uint64_t key
    uint64_t *leaf              # one allocation: leaf, mid, top
    uint64_t *mid
    uint64_t *top
    uint32_t tops

ctypedef struct walk_t:         # see live_nodes
    node_t *node
    uint32_t index              # of node
    uint32_t end


cdef inline uint64_t gen_mask() noexcept nogil:
    return low_bits(GEN_BITS)


cdef inline void arena_init(arena_t *a, uint64_t wheel_number) noexcept nogil:
    """An empty pool that owns no memory. Its key is the number, well mixed (the finalizer of MurmurHash3)."""
    cdef uint64_t key = wheel_number
    memset(a, 0, sizeof(arena_t))
    key = (key ^ key >> 33) * <uint64_t>0xFF51AFD7ED558CCD
    key = (key ^ key >> 33) * <uint64_t>0xC4CEB9FE1A85EC53
    key ^= key >> 33
    a.key = (key & low_bits(KEY_BITS)) | <uint64_t>1 << 31     # no index has that bit, so no handle is 0


cdef inline void arena_free(arena_t *a) noexcept nogil:
    free_large(a.block, a.mapped)
    PyMem_RawFree(a.leaf)
    PyMem_RawFree(a.spare)


cdef inline size_t arena_bytes(const arena_t *a) noexcept nogil:
    cdef size_t leaves = (a.capacity + 63) >> 6
    cdef size_t mids = (leaves + 63) >> 6
    return a.capacity * sizeof(node_t) + (leaves + mids + a.tops) * 8 + a.spare_room * sizeof(uint32_t)


cdef inline int grow_map(arena_t *a, uint32_t capacity) noexcept nogil:
    """Make the bitmap large enough for `capacity` nodes; -1 if memory is out."""
    cdef size_t leaves = (<size_t>capacity + 63) >> 6
    cdef size_t mids = (leaves + 63) >> 6
    cdef size_t tops = (mids + 63) >> 6
    cdef size_t old_leaves = (<size_t>a.capacity + 63) >> 6
    cdef size_t old_mids = (old_leaves + 63) >> 6
    cdef uint64_t *grown = <uint64_t *>PyMem_RawCalloc(leaves + mids + tops, sizeof(uint64_t))
    if grown == NULL:
        return -1
    if a.capacity:
        memcpy(grown, a.leaf, old_leaves * 8)
        memcpy(grown + leaves, a.mid, old_mids * 8)
        memcpy(grown + leaves + mids, a.top, a.tops * 8)
        PyMem_RawFree(a.leaf)
    a.leaf, a.mid, a.top = grown, grown + leaves, grown + leaves + mids
    a.tops = <uint32_t>tops
    return 0


cdef inline bint indices_are_out(const arena_t *a, uint64_t more) noexcept nogil:
    """Whether fewer than `more` nodes could be taken, however much memory there is."""
    cdef uint64_t fresh = INDEX_LIMIT + 1 - (a.used if a.used else 1)
    return more > fresh + a.free + a.spares


cdef inline int arena_reserve(arena_t *a, uint64_t more) noexcept nogil:
    """Make sure that `more` nodes can be taken; -1, with nothing lost, if memory is out, or `indices_are_out`."""
    cdef uint64_t idle = <uint64_t>a.free + a.spares, fresh = more - idle if more > idle else 0
    cdef uint64_t needed = (a.used if a.used else 1) + fresh
    cdef uint64_t capacity, step
    if needed <= a.capacity:
        return 0
    if indices_are_out(a, more):
        return -1
    # Double while that is cheap; a large pool grows by a quarter at most, of which an eighth is idle on average.
    step = (<uint64_t>1) << (msb((needed - 1) | 32) + (1 if needed <= DOUBLE_UP_TO else -2))
    capacity = (needed + step - 1) & ~(step - 1)
    if capacity > INDEX_LIMIT + 1:
        capacity = INDEX_LIMIT + 1
    cdef node_t *nodes = <node_t *>large_resize(&a.block, &a.mapped, a.nodes, a.used * sizeof(node_t),
                                                capacity * sizeof(node_t))
    if nodes == NULL:
        return -1
    a.nodes = nodes             # larger than `capacity` says until the bitmap has followed: harmless
    if grow_map(a, <uint32_t>capacity):
        return -1
    a.capacity = <uint32_t>capacity
    if a.used == 0:
        memset(nodes, 0, sizeof(node_t))
        a.used = 1
    return 0


cdef inline int arena_touch(arena_t *a, uint64_t more) noexcept nogil:
    """As arena_reserve, but the system supplies the memory now, not when each page is first written to."""
    cdef uint64_t idle = <uint64_t>a.free + a.spares, index, end
    if arena_reserve(a, more):
        return -1
    index, end = a.used, a.used + more
    while index + idle < end:
        a.nodes[index].stamp = 0
        index += PAGE_NODES
    return 0


cdef inline uint32_t next_leaf(const arena_t *a) noexcept nogil:
    """The first word of leaf that is not 0, going up and around from the cursor. A node must be free."""
    cdef uint32_t m = a.cursor >> 6, t = m >> 6
    cdef uint64_t word = a.mid[m] & ~low_bits(a.cursor & 63)
    if not word:
        word = a.top[t] & ~low_bits(m & 63) & ~((<uint64_t>1) << (m & 63))
        while not word:
            t = t + 1 if t + 1 < a.tops else 0
            word = a.top[t]
        m = (t << 6) + ctz(word)
        word = a.mid[m]
    return (m << 6) + ctz(word)


cdef inline uint32_t take_free(arena_t *a) noexcept nogil:
    cdef uint64_t word = a.leaf[a.cursor]
    cdef uint32_t w
    if unlikely(word == 0):
        a.cursor = next_leaf(a)
        word = a.leaf[a.cursor]
    w = a.cursor
    a.leaf[w] = word & (word - 1)
    if unlikely((word & (word - 1)) == 0):
        a.mid[w >> 6] &= ~((<uint64_t>1) << (w & 63))
        if a.mid[w >> 6] == 0:
            a.top[w >> 12] &= ~((<uint64_t>1) << ((w >> 6) & 63))
    a.free -= 1
    return (w << 6) + ctz(word)


cdef inline uint32_t arena_take(arena_t *a) noexcept nogil:
    """Index of a node that now belongs to the caller: generation set, sequence still 0; 0 if memory is out."""
    cdef uint32_t index
    if a.spares:
        a.spares -= 1
        return a.spare[a.spares]
    if a.free:
        return take_free(a)
    if unlikely(a.used >= a.capacity) and arena_reserve(a, 1):
        return 0
    index = a.used
    a.used = index + 1
    a.nodes[index].stamp = a.first_generation
    return index


cdef inline bint more_spare(arena_t *a) noexcept nogil:
    """Make the stack larger; False if it is as large as it may be, or memory is out."""
    cdef uint32_t room = 2 * a.spare_room if a.spare_room else 64
    cdef uint32_t *grown
    if room > MOST_SPARE:
        return False
    grown = <uint32_t *>PyMem_RawRealloc(a.spare, room * sizeof(uint32_t))
    if grown == NULL:
        return False
    a.spare, a.spare_room = grown, room
    return True


cdef inline void set_free(arena_t *a, uint32_t index) noexcept nogil:
    cdef uint32_t w = index >> 6
    cdef uint64_t word = a.leaf[w]
    a.leaf[w] = word | ((<uint64_t>1) << (index & 63))
    if word == 0:
        a.mid[w >> 6] |= (<uint64_t>1) << (w & 63)
        a.top[w >> 12] |= (<uint64_t>1) << ((w >> 6) & 63)
    a.free += 1


cdef inline void arena_give(arena_t *a, uint32_t index) noexcept nogil:
    """Take back a node that is in no list: every handle to it is stale from here on."""
    cdef node_t *node = a.nodes + index
    cdef uint64_t generation = (node.stamp + 1) & gen_mask()
    node.stamp = generation
    if unlikely(generation == 0):
        a.retired += 1
    elif a.spares < a.spare_room or more_spare(a):
        a.spare[a.spares] = index
        a.spares += 1
    else:
        set_free(a, index)


cdef inline bint is_live(const node_t *node) noexcept nogil:
    return node.stamp > gen_mask()


cdef inline walk_t live_nodes(const arena_t *a) noexcept nogil:
    """A walk over the live nodes, in index order, which is that of memory: `next_live` takes each step. O(nodes used).

    It begins at nodes[0]. Until it is over no node may be taken or given back.
    """
    cdef walk_t walk
    walk.node, walk.index, walk.end = a.nodes, 0, a.used
    return walk


cdef inline bint next_live(walk_t *walk) noexcept nogil:
    """Go to the next live node; False if there is none."""
    while walk.index + 1 < walk.end:
        walk.index += 1
        walk.node += 1
        if likely(is_live(walk.node)):          # otherwise the compiler lays the loop out for free nodes, which are few
            return True
    return False


cdef inline uint64_t arena_handle(const arena_t *a, uint32_t index) noexcept nogil:
    """The handle of a live node."""
    return pack_handle(a, a.nodes[index].stamp & gen_mask(), index)


cdef inline uint64_t pack_handle(const arena_t *a, uint64_t generation, uint32_t index) noexcept nogil:
    """Generation above index, scrambled; never 0."""
    return (generation << 32 | index) ^ a.key


cdef inline uint32_t index_in(const arena_t *a, uint64_t handle) noexcept nogil:
    """The index in a handle, which may be a stale one, or of another pool."""
    return <uint32_t>(handle ^ a.key)


cdef inline uint32_t arena_find(const arena_t *a, uint64_t handle) noexcept nogil:
    """Index of the live node that `handle` stands for; 0 if it is stale or never was one."""
    cdef uint32_t index = index_in(a, handle)
    cdef uint64_t stamp
    if index >= a.used:
        return 0
    stamp = a.nodes[index].stamp
    if (stamp & gen_mask()) != (handle ^ a.key) >> 32 or stamp <= gen_mask():
        return 0
    return index


cdef inline void arena_reset(arena_t *a, uint64_t wheel_number) noexcept nogil:
    """Forget every node, including the memory (the caller frees it), so that all earlier handles are stale."""
    cdef uint64_t next = a.first_generation, following, key = a.key
    cdef uint32_t index
    for index in range(1, a.used):
        following = (a.nodes[index].stamp & gen_mask()) + is_live(a.nodes + index)
        if following > next:
            next = following
    cdef bint exhausted = a.retired != 0 or next > gen_mask()
    arena_init(a, wheel_number)
    if not exhausted:           # otherwise start as a new wheel does
        a.key, a.first_generation = key, <uint32_t>next
