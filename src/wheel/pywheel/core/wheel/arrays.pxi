# Arrays for the bulk calls.

cdef enum:
    TICKS                               # integers without the top bit
    KEYS                                # integers, not negative
    HANDLES                             # any integers: most ints are no handles
    RESULT                              # an array of our own, to write to

cdef object numpy_empty = None
cdef object UINT64, BOOL


cdef int need_numpy() except -1:
    """ImportError without NumPy."""
    global numpy_empty, UINT64, BOOL
    if numpy_empty is None:
        numpy = arguments.numpy()
        UINT64, BOOL = numpy.dtype("uint64"), numpy.dtype("bool")
        numpy_empty = numpy.empty
    return 0


cdef object new_handles(uint64_t n):
    """An array of n elements of 64 bits with anything in them."""
    need_numpy()
    return numpy_empty(n, UINT64)


cdef object new_flags(uint64_t n):
    """An array of n truth values with anything in them."""
    need_numpy()
    return numpy_empty(n, BOOL)


cdef inline int same_length(Words first, Words second, str names) except -1:
    if first.n != second.n:
        arguments.same_length(first, second, names)
    return 0


@cython.final
@cython.internal
@cython.freelist(8)
@cython.no_gc                          # what a buffer belongs to is held for the time of a call
cdef class Words:
    """A contiguous array of 64-bit integers, held open while a bulk call reads it, or one of results to write to."""
    cdef Py_buffer view
    cdef bint is_open
    cdef uint64_t n
    cdef uint64_t *at

    def __cinit__(self, object values, object normalise, int kind):
        if kind == RESULT:
            self.open(values, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
        elif not self.open_as_it_is(values) or self.has_bad(kind):
            self.close()
            self.open(normalise(values), PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)

    def __dealloc__(self):
        self.close()

    def __len__(self):
        return self.n

    cdef int open(self, object values, int flags) except -1:
        PyObject_GetBuffer(values, &self.view, flags)
        self.is_open = True
        self.n = self.view.len // self.view.itemsize
        self.at = <uint64_t *>self.view.buf
        return 0

    cdef void close(self) noexcept:
        if self.is_open:
            self.is_open = False
            PyBuffer_Release(&self.view)

    cdef bint open_as_it_is(self, object values) except -1:
        """Whether `values` can be read where it is, and is now open."""
        if not PyObject_CheckBuffer(values):
            return False
        try:
            self.open(values, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
        except (BufferError, ValueError):
            return False
        return (self.view.ndim == 1 and self.view.itemsize == 8 and <uintptr_t>self.view.buf % 8 == 0
                and self.view.format != NULL and self.view.format[0] in b"lqLQ" and self.view.format[1] == 0)

    cdef bint has_bad(self, int kind) noexcept:
        """Whether a value is one that `normalise` has to name in an error."""
        cdef uint64_t bits = 0, i
        if kind == HANDLES or (kind == KEYS and self.view.format[0] in b"LQ"):
            return False
        for i in range(self.n):
            bits |= self.at[i]
        return bits >> 63
