# Ints of Python as 64 bits, and back. A plain int is read from its digits.

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    /* The value of an exact int from 0 to 2**60 - 1, or -1 for every other object. PyLong_AsLongLong would take a third
       of a call's time. From 3.15 on it is used, because the layout is not known yet. */
    static CYTHON_INLINE int64_t pywheel_short_int(PyObject *value) {
    #if PY_VERSION_HEX < 0x030C0000 && PYLONG_BITS_IN_DIGIT == 30
        const digit *digits = ((PyLongObject *)value)->ob_digit;
        Py_ssize_t size = PyLong_CheckExact(value) ? Py_SIZE(value) : -1;
    #elif PY_VERSION_HEX < 0x030F0000 && PYLONG_BITS_IN_DIGIT == 30
        const digit *digits = ((PyLongObject *)value)->long_value.ob_digit;
        uintptr_t tag = PyLong_CheckExact(value) ? ((PyLongObject *)value)->long_value.lv_tag : 2;
        Py_ssize_t size = tag & 3 ? ((tag & 3) == 1 ? 0 : -1) : (Py_ssize_t)(tag >> 3);
    #else
        int overflow;
        return PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : -1;
    #endif
    #if PY_VERSION_HEX < 0x030F0000 && PYLONG_BITS_IN_DIGIT == 30
        if (size == 2)
            return (int64_t)digits[1] << 30 | digits[0];
        return size == 1 ? (int64_t)digits[0] : size == 0 ? 0 : -1;
    #endif
    }

    /* The same as PyLong_FromUnsignedLongLong, which counts digits first; a handle has two digits. */
    static CYTHON_INLINE PyObject *pywheel_new_handle(uint64_t value) {
    #if PY_VERSION_HEX < 0x030E0000 && PYLONG_BITS_IN_DIGIT == 30
        if (value >> 30 && value >> 60 == 0) {
            PyLongObject *made = _PyLong_New(2);
            if (made != NULL) {
    #if PY_VERSION_HEX < 0x030C0000
                digit *digits = made->ob_digit;
    #else
                digit *digits = made->long_value.ob_digit;
    #endif
                digits[0] = (digit)(value & PyLong_MASK);
                digits[1] = (digit)(value >> 30);
            }
            return (PyObject *)made;
        }
    #endif
        return PyLong_FromUnsignedLongLong(value);
    }
    """
    int64_t short_int "pywheel_short_int"(object value) noexcept
    PyObject *new_handle "pywheel_new_handle"(uint64_t value)
    PyObject *handle_or_error "pywheel_new_handle"(uint64_t value) except NULL
