# The sorts that restore the order of sequence numbers among the timers of a slot.

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from pywheel.core.bits cimport low_bits, msb

cdef enum:
    SMALL = 96                  # up to this many keys, counting smaller keys beats a histogram


ctypedef struct pair_t:
    uint64_t high
    uint64_t low


cdef inline void rank_sort(uint64_t *keys, size_t n, uint64_t *scratch, int ignored) noexcept nogil:
    """Put each key at the number of smaller ones: n * n comparisons, but without a branch, four at a time."""
    cdef int32_t brief[SMALL]
    cdef int32_t mine, rank
    cdef size_t i, j, lanes = (n + 3) & ~<size_t>3
    for i in range(n):
        brief[i] = <int32_t>((keys[i] >> ignored) & 0x7FFFFFFF)
    for i in range(n, lanes):
        brief[i] = 0x7FFFFFFF
    for i in range(n):
        mine, rank = brief[i], 0
        for j in range(lanes):
            rank += brief[j] < mine
        scratch[rank] = keys[i]
    memcpy(keys, scratch, n * sizeof(uint64_t))


cdef inline void reverse(uint64_t *keys, size_t n) noexcept nogil:
    cdef size_t i
    cdef uint64_t key
    for i in range(n >> 1):
        key = keys[i]
        keys[i] = keys[n - 1 - i]
        keys[n - 1 - i] = key


cdef inline void radix_sort(uint64_t *keys, size_t n, uint64_t *scratch, int low, int high) noexcept nogil:
    """Sort by bits low .. high, least significant digit first; O(n) a digit. `scratch` holds n keys."""
    cdef uint32_t count[256]
    cdef uint64_t *source = keys
    cdef uint64_t *target = scratch
    cdef uint32_t total, here
    cdef size_t i
    cdef int digit
    while low <= high:
        memset(count, 0, sizeof(count))
        for i in range(n):
            count[(source[i] >> low) & 255] += 1
        total = 0
        for digit in range(256):
            here = count[digit]
            count[digit] = total
            total += here
        for i in range(n):
            digit = (source[i] >> low) & 255
            target[count[digit]] = source[i]
            count[digit] += 1
        source, target = target, source
        low += 8
    if source != keys:
        memcpy(keys, source, n * sizeof(uint64_t))


cdef inline bint place_sort(uint64_t *keys, size_t n, uint64_t *scratch, int ignored) noexcept nogil:
    """Sort by the bits above the ignored ones, if those are dense: put each key at its value, then close the gaps.

    Timers that were scheduled one after the other are dense. False, and nothing done, if half of the places or more
    would be gaps. `scratch` holds n keys, and so twice as many low parts.
    """
    cdef uint64_t first = keys[0], last = keys[0], span, i
    cdef size_t sorted = 0
    cdef uint32_t *table = <uint32_t *>scratch
    for i in range(1, n):
        first, last = min(first, keys[i]), max(last, keys[i])
    first >>= ignored
    span = (last >> ignored) - first + 1
    if span > 2 * n:
        return False
    memset(table, 0, span * sizeof(uint32_t))
    for i in range(n):
        table[(keys[i] >> ignored) - first] = <uint32_t>(keys[i] & low_bits(ignored))
    for i in range(span):               # the last place is taken, so nothing is written behind the keys
        keys[sorted] = (first + i) << ignored | table[i]
        sorted += table[i] != 0
    return True


cdef inline void sort_keys(uint64_t *keys, size_t n, uint64_t *scratch, int ignored) noexcept nogil:
    """Sort distinct keys. Their `ignored` low bits, at most 32 and not all 0, never decide.

    Keys often come sorted, in either direction.
    """
    cdef uint64_t differ = 0
    cdef size_t i, ascents = 0
    for i in range(1, n):
        ascents += keys[i - 1] < keys[i]
        differ |= keys[0] ^ keys[i]
    if n < 2 or ascents == n - 1:
        return
    if ascents == 0:
        reverse(keys, n)
    elif n <= SMALL and differ >> ignored < 0x7FFFFFFF:     # then 31 bits decide
        rank_sort(keys, n, scratch, ignored)
    elif not place_sort(keys, n, scratch, ignored):
        radix_sort(keys, n, scratch, ignored, msb(differ))


cdef inline bint less(pair_t a, pair_t b) noexcept nogil:
    return a.high < b.high or (a.high == b.high and a.low < b.low)


cdef inline void sort_pairs(pair_t *pairs, size_t n, pair_t *scratch) noexcept nogil:
    """Sort by (high, low): merge sort from the bottom up, O(n log n). `scratch` holds n pairs."""
    cdef pair_t *source = pairs
    cdef pair_t *target = scratch
    cdef size_t width = 1, i, j, k, middle, end
    while width < n:
        k = 0
        while k < n:
            i, middle = k, min(k + width, n)
            j, end = middle, min(k + 2 * width, n)
            while k < end:
                if i < middle and (j == end or not less(source[j], source[i])):
                    target[k] = source[i]
                    i += 1
                else:
                    target[k] = source[j]
                    j += 1
                k += 1
        source, target = target, source
        width *= 2
    if source != pairs:
        memcpy(pairs, source, n * sizeof(pair_t))
