"""The exceptions of pywheel."""


class PywheelError(Exception):
    """Base of all errors of pywheel."""


class WheelFull(PywheelError):
    """A timer was refused because the wheel already holds its maximum number of timers."""


class TimersStopped(PywheelError):
    """A timer was refused because its driver has been stopped."""


class BadJob(PywheelError, ValueError):
    """A job makes no sense: an empty topic, a naive datetime, a body over the limit.

    It is about jobs alone: topics, keys, bodies, delays and times, priorities, headers, the options of a put, and names
    of jobs, such as references, filters and cursors. Any other argument of a queue, worker, handler, task, schedule,
    outlet or command raises BadOption if its value makes no sense, and TypeError if it has a wrong class, such as a
    clock that is not a Clock.
    """


class BadOption(PywheelError, ValueError):
    """An argument of a queue, worker, handler, task, schedule, outlet or command that is not about its jobs is invalid.

    Examples: a limit of 0, a key of the wrong length, a rate that cannot be read, a topic without a handler.
    """


class ExtraMissing(BadOption, ImportError):
    """A package of an extra is not installed. The message says how to install it."""


class BadArguments(BadJob):
    """The arguments of a task do not fit its function. The message names the argument and the expected type.

    A put that raises it has stored nothing. In the handler it is a failed attempt, which is tried again.
    """


class BadBody(PywheelError, ValueError):
    """The body of a job is not as requested, for example not JSON."""


class BadResult(PywheelError, ValueError):
    """The return value of a handler cannot be kept as its job's result: it is not JSON, or too long."""


class NoKey(BadBody):
    """A body is encrypted with a key that is missing; the job stays as it was."""


class JobExists(PywheelError):
    """A live job of the topic has the key, or a job with the key ended recently; nothing was stored."""

    def __init__(self, message: str, id: int) -> None:
        super().__init__(message)
        self.id = id
        """The job that has or had the key."""

    def __reduce__(self) -> tuple[type["JobExists"], tuple[str, int], dict[str, object]]:
        return type(self), (str(self), self.id), self.__dict__  # the default pickling would lose the id


class NonceTaken(PywheelError):
    """An earlier put with this nonce had another fingerprint; nothing was stored."""


class NoSuchJob(PywheelError, LookupError):
    """No job has this id, or this topic and key."""


class WaitTimeout(PywheelError, TimeoutError):
    """The job had not ended when the timeout was over. It goes on."""


class NoSuchSchedule(NoSuchJob):
    """No schedule has this name."""


class StoreError(PywheelError):
    """The store could not do it. The call has stored nothing, unless the message says otherwise."""


class StoreAway(StoreError):
    """The store cannot be reached: a server does not answer, or a connection to it broke."""

    seconds: float = 0.0
    """How long it has been away, as far as this process knows."""


class OutcomeUnknown(StoreAway):
    """The connection broke, or no answer came in time. Whether the call took effect is unknown: check before a repeat.

    A put with a key may be repeated.
    """


class StoreClosed(StoreError):
    """The store was closed: open another one."""


class StoreBusy(StoreError):
    """Another program kept the store locked for too long: try again."""


class StoreFull(StoreError):
    """The disk is full. Stored jobs are intact, and the store works again when there is room."""


class StoreReadOnly(StoreError):
    """The store can be read, but not written."""


class StoreReplaced(StoreError):
    """The store's files were deleted or replaced while they were open: open the store again."""


class StoreCorrupt(StoreError):
    """The store's file is damaged."""


class StoreTooNew(StoreError):
    """The store was written by a newer version of pywheel."""


class NotAStore(StoreError):
    """The address does not lead to a store of jobs."""


class BadAddress(NotAStore, ValueError):
    """The address cannot be a store's: an unknown scheme or option, or a port that is not a number."""


for _error in list(globals().values()):
    if isinstance(_error, type):
        _error.__module__ = "pywheel"  # where users import it from, for tracebacks and errors of jobs
