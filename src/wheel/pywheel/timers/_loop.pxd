# The functions of the loop that timeouts call directly, without the layers in between.

cdef bint is_plain_wheel(object loop) except -1
cdef double wheel_time(object loop) except? -1
cdef object wheel_timer(object loop, object when, double due, object callback, tuple args)
cdef int cancel_timer(object handle) except -1
