# Which loop runs in this thread, and which task. Where asyncio answers slowly, its records are read.

cdef extern from *:
    """
    /* asyncio's record of the running loop, in the dict of a thread's state. Up to Python 3.11 asyncio asks the system
       at each look whether it is in a forked child; later it forgets the record in the child. */
    #if PY_VERSION_HEX < 0x030C0000 && !defined(MS_WINDOWS)
      #include <unistd.h>
      #define PYWHEEL_HAS_RECORDS 1
      typedef struct {
          PyObject_HEAD
          PyObject *loop;
          pid_t process;
      } pywheel_record;
    #else
      #define PYWHEEL_HAS_RECORDS 0
      typedef struct {
          PyObject_HEAD
          PyObject *loop;
          long process;
      } pywheel_record;
      #define getpid() 0L
    #endif
    """
    const bint HAS_RECORDS "PYWHEEL_HAS_RECORDS"
    ctypedef struct record_t "pywheel_record":
        PyObject *loop
        long process
    long getpid()

cdef object find_loop = events.get_running_loop
cdef object find_task = tasks.current_task
# Up to Python 3.11 that is a function in Python, which looks here.
cdef dict current_tasks = tasks._current_tasks if type(find_task) is FunctionType else None

cdef PyTypeObject *RECORD = NULL        # the type of records, once one was seen to be what `record_t` says
cdef long process = 0                   # this one


cdef object running_loop():
    """What asyncio.get_running_loop returns, or raises."""
    cdef PyObject *found = running_record()
    if found != NULL and Py_TYPE(found) == RECORD and (<record_t *>found).process == process:
        if (<record_t *>found).loop != Py_None:
            return <object>(<record_t *>found).loop
    return find_loop() if found == NULL or RECORD != NULL else see_record(<object>found)


cdef inline PyObject *running_record() except? NULL:
    cdef PyObject *states = PyThreadState_GetDict() if HAS_RECORDS else NULL
    return NULL if states == NULL else PyDict_GetItemWithError(<object>states, "__asyncio_running_event_loop__")


cdef object see_record(object record):
    """See whether a record is what `record_t` says; return what asyncio.get_running_loop returns, or raises."""
    global RECORD, process
    loop = find_loop()
    if type(record).__basicsize__ == sizeof(record_t) and (<record_t *>record).loop == <PyObject *>loop:
        if (<record_t *>record).process == getpid():
            _note_process()
            RECORD = Py_TYPE(<PyObject *>record)
    return loop


def _note_process():
    global process
    process = getpid()


if HAS_RECORDS:
    register_at_fork(after_in_child=_note_process)


cdef inline object current_task(object loop):
    cdef PyObject *found
    if current_tasks is None:
        return find_task(loop)
    found = PyDict_GetItemWithError(current_tasks, loop)
    return None if found == NULL else <object>found
