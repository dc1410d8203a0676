# Bit and memory primitives with a different spelling in each C compiler, and the digits of a tick.

from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memmove

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #include <intrin.h>
      static __forceinline int pywheel_ctz(unsigned __int64 x) {
          unsigned long i;
          _BitScanForward64(&i, x);
          return (int)i;
      }
      static __forceinline int pywheel_msb(unsigned __int64 x) {
          unsigned long i;
          _BitScanReverse64(&i, x);
          return (int)i;
      }
      #if defined(_M_ARM64)
        #define pywheel_prefetch(p) __prefetch((const void *)(p))
      #else
        #define pywheel_prefetch(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
      #endif
      #define pywheel_likely(x) (x)
      #define pywheel_unlikely(x) (x)
    #else
      #define pywheel_ctz(x) __builtin_ctzll(x)
      #define pywheel_msb(x) (63 ^ __builtin_clzll(x))    /* one instruction, unlike a subtraction */
      static inline __attribute__((always_inline)) void pywheel_prefetch(const void *p) {
          __builtin_prefetch(p, 1);
          __asm__ __volatile__("");     /* otherwise GCC treats a function that only prefetches as one without effect */
      }
      #define pywheel_likely(x) __builtin_expect(!!(x), 1)
      #define pywheel_unlikely(x) __builtin_expect(!!(x), 0)
    #endif
    #if defined(Py_GIL_DISABLED)
      #define PYWHEEL_HAS_GIL 0
    #else
      #define PYWHEEL_HAS_GIL 1
    #endif
    #if defined(Py_GIL_DISABLED) && !defined(_MSC_VER)
      #define pywheel_read_shared(p) __atomic_load_n(p, __ATOMIC_RELAXED)
      #define pywheel_write_shared(p, x) __atomic_store_n(p, x, __ATOMIC_RELAXED)
    #elif defined(Py_GIL_DISABLED)          /* with MSVC a volatile access of an aligned word is one access */
      #define pywheel_read_shared(p) (*(volatile uint64_t *)(p))
      #define pywheel_write_shared(p, x) (*(volatile uint64_t *)(p) = (x))
    #else
      #define pywheel_read_shared(p) (*(p))
      #define pywheel_write_shared(p, x) (*(p) = (x))
    #endif
    #if defined(__linux__)
      #include <errno.h>
      #include <sys/mman.h>
      /* A timer is found by one random access. With 4 KiB pages there is a second one, to the page table. The whole
         mapping or nothing: mremap could not move one that is half huge, and growing would copy. */
      static inline void pywheel_use_huge_pages(void *block, size_t size) {
          uintptr_t page = 4096, first = (uintptr_t)block & ~(page - 1);
          uintptr_t end = ((uintptr_t)block + size + page - 1) & ~(page - 1);
          if (size >= (size_t)4 << 20)
              (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
      }

      #define PYWHEEL_MAP_FROM ((size_t)4 << 20)
      #define PYWHEEL_HUGE_PAGE ((size_t)2 << 20)       /* where huge pages are larger, small ones are used */

      /* Map `size` bytes that begin where a huge page can. The pages of `old`, a mapping of `old_size` bytes or NULL,
         move there: huge pages do not fit where an allocator's realloc would move them. NULL without memory, and `old`
         is as it was. */
      static inline void *pywheel_map(void *old, size_t old_size, size_t size) {
          size_t room = size + PYWHEEL_HUGE_PAGE, before;
          int access = PROT_READ | PROT_WRITE;      /* a place to move to takes no memory */
          char *area = (char *)mmap(NULL, room, old == NULL ? access : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          char *start;
          if (area == (char *)MAP_FAILED)
              return NULL;
          before = -(uintptr_t)area & (PYWHEEL_HUGE_PAGE - 1);
          start = area + before;
          if (before)
              (void)munmap(area, before);
          (void)munmap(start + size, room - before - size);
          if (old != NULL && mremap(old, old_size, size, MREMAP_MAYMOVE | MREMAP_FIXED, start) == MAP_FAILED) {
              if (errno != EPERM && errno != ENOSYS)
                  return NULL;          /* the place may be another thread's by now: do not unmap it */
              if (mprotect(start, size, access)) {
                  (void)munmap(start, size);
                  return NULL;
              }
              memcpy(start, old, old_size);         /* a sandbox without mremap */
              (void)munmap(old, old_size);
          }
          (void)madvise(start, size, MADV_HUGEPAGE);
          return start;
      }
      #define pywheel_unmap(block, size) ((void)munmap(block, size))
    #else
      #define pywheel_use_huge_pages(block, size) ((void)0)
      #define PYWHEEL_MAP_FROM SIZE_MAX
      #define PYWHEEL_HUGE_PAGE ((size_t)1)
      #define pywheel_map(old, old_size, size) NULL
      #define pywheel_unmap(block, size) ((void)0)
    #endif
    """
    const bint HAS_GIL "PYWHEEL_HAS_GIL"
    const size_t MAP_FROM "PYWHEEL_MAP_FROM"                    # bytes from which a block is a mapping of its own
    const size_t HUGE_PAGE "PYWHEEL_HUGE_PAGE"
    void *map_block "pywheel_map"(void *old, size_t old_size, size_t size) noexcept nogil
    void unmap_block "pywheel_unmap"(void *block, size_t size) noexcept nogil
    void use_huge_pages "pywheel_use_huge_pages"(void *block, size_t size) noexcept nogil
    uint64_t read_shared "pywheel_read_shared"(uint64_t *p) noexcept nogil  # a value that another thread may write
    void write_shared "pywheel_write_shared"(uint64_t *p, uint64_t x) noexcept nogil
    int ctz "pywheel_ctz"(uint64_t x) noexcept nogil            # x != 0
    int msb "pywheel_msb"(uint64_t x) noexcept nogil            # x != 0
    void prefetch "pywheel_prefetch"(const void *p) noexcept nogil
    bint likely "pywheel_likely"(bint x) noexcept nogil
    bint unlikely "pywheel_unlikely"(bint x) noexcept nogil

cdef extern from "Python.h" nogil:
    void *PyMem_RawMalloc(size_t n)
    void *PyMem_RawCalloc(size_t n, size_t size)
    void *PyMem_RawRealloc(void *p, size_t n)
    void PyMem_RawFree(void *p)


# A level is a digit of the tick in base 256. Its slots cover two turns of that digit: 512 of them.
cdef enum:
    DIGIT_BITS = 8
    DIGIT_MASK = 255
    SLOTS = 512
    SLOT_MASK = 511
    WORDS = 8                   # 64-bit words in a bitmap of SLOTS bits
    CACHE_LINE = 64


cdef inline uint64_t low_bits(int n) noexcept nogil:
    """The number with the n low bits set, 0 <= n < 64."""
    return ((<uint64_t>1) << n) - 1


cdef inline int next_bit(const uint64_t *map, int start) noexcept nogil:
    """Distance, up and around, from slot `start` to the first bit set in a map of SLOTS bits; -1 if none is set."""
    cdef int first = start >> 6, i, w
    cdef uint64_t word = map[first] >> (start & 63)
    if word:
        return ctz(word)
    for i in range(1, WORDS + 1):
        w = (first + i) & (WORDS - 1)
        word = map[w]
        if word:
            return ((w << 6) + ctz(word) - start) & SLOT_MASK
    return -1


cdef inline void *aligned_resize(void **block, void *old, size_t used, size_t size) noexcept nogil:
    """Resize to `size` bytes the allocation `*block` whose aligned start is `old`; `used` bytes of it are kept.

    Return the new start, aligned to a cache line, or NULL with nothing changed. `*block` is what to free.
    """
    cdef size_t shift = <size_t>(<char *>old - <char *>block[0]) if old != NULL else 0
    cdef void *grown = PyMem_RawRealloc(block[0], size + CACHE_LINE)
    if grown == NULL:
        return NULL
    block[0] = grown
    cdef char *start = <char *>((<uintptr_t>grown + CACHE_LINE - 1) & ~<uintptr_t>(CACHE_LINE - 1))
    if used and start != <char *>grown + shift:       # the allocator moved it to another offset in the line
        memmove(start, <char *>grown + shift, used)
    return start


cdef inline void *large_resize(void **block, size_t *mapped, void *old, size_t used, size_t size) noexcept nogil:
    """As aligned_resize, but from MAP_FROM bytes on the block is a mapping of `*mapped` bytes (before: 0)."""
    cdef void *grown
    if size <= mapped[0]:       # less than that is asked for after a call that found no memory for its bitmap
        return old
    if size < MAP_FROM:
        return aligned_resize(block, old, used, size)
    size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)
    grown = map_block(old if mapped[0] else NULL, mapped[0], size)
    if grown == NULL:
        return NULL
    if mapped[0] == 0 and old != NULL:
        memcpy(grown, old, used)
        PyMem_RawFree(block[0])
    block[0], mapped[0] = grown, size
    return grown


cdef inline void free_large(void *block, size_t mapped) noexcept nogil:
    if mapped:
        unmap_block(block, mapped)
    else:
        PyMem_RawFree(block)
