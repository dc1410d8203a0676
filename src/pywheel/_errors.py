"""Every exception that pywheel raises by a name of its own."""

__all__ = [
    "BadAddress",
    "BadArguments",
    "BadBody",
    "BadJob",
    "BadOption",
    "BadResult",
    "ExtraMissing",
    "JobExists",
    "NoKey",
    "NoSuchJob",
    "NoSuchSchedule",
    "NotAStore",
    "PywheelError",
    "StoreAway",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreReplaced",
    "StoreTooNew",
    "TimersStopped",
    "WaitTimeout",
    "WheelFull",
]


class PywheelError(Exception):
    """Base of every error that is pywheel's own."""


class ExtraMissing(PywheelError, ImportError):
    """A package of an extra is not installed. The message says how to install it."""


class WheelFull(PywheelError):
    """A timer was refused because the wheel already holds as many as it may."""


class TimersStopped(PywheelError):
    """A timer was refused because its driver has been stopped."""


class BadJob(PywheelError, ValueError):
    """A job makes no sense: an empty topic, a naive datetime, a body over the limit.

    It is about jobs alone: topics, keys, bodies, delays and times, priorities, headers, the options of a put, and what
    names jobs, such as references, filters and cursors. What else a queue, worker, handler, task, schedule, outlet or
    command is given is a BadOption if its value makes no sense, and a TypeError if it is of a wrong class, such as a
    clock that is none.
    """


class BadOption(PywheelError, ValueError):
    """What a queue, worker, handler, task, schedule, outlet or command was given beside its jobs cannot be.

    Such as a limit of 0, a key of the wrong length, a rate that is not understood, a topic without a handler.
    """


class BadArguments(BadJob):
    """The arguments of a task are not what its function takes; the message names the argument and the type wanted.

    A put that raises it has stored nothing. At the handler it is a failed attempt, which is tried again.
    """


class BadBody(PywheelError, ValueError):
    """The body of a job is not what was asked for, such as JSON."""


class BadResult(PywheelError, ValueError):
    """The return value of a handler cannot be kept as its job's result: it is no JSON, or too long."""


class NoKey(BadBody):
    """A body is encrypted with a key that is not here; the job stays as it was."""


class JobExists(PywheelError):
    """A live job of the topic has the key already, or one had it that ended lately; nothing was stored."""

    def __init__(self, message: str, id: int) -> None:
        super().__init__(message)
        self.id = id
        """The job that has the key, or had it."""

    def __reduce__(self) -> tuple[type["JobExists"], tuple[str, int], dict[str, object]]:
        return type(self), (str(self), self.id), self.__dict__  # pickled by itself it would forget the id


class NonceTaken(PywheelError):
    """A put with another fingerprint had this nonce before; nothing was stored."""


class NoSuchJob(PywheelError, LookupError):
    """No job has this id, or this topic and key."""


class WaitTimeout(PywheelError, TimeoutError):
    """The job had not ended when the time was over for which somebody waited. It goes on."""


class NoSuchSchedule(NoSuchJob):
    """No schedule has this name."""


class StoreError(PywheelError):
    """The store could not do it; nothing of the call was stored, unless it says otherwise."""


class StoreAway(StoreError):
    """The store cannot be reached: a server does not answer, or a connection to it broke."""

    seconds: float = 0.0
    """For how long it has been away, as far as this process knows."""


class OutcomeUnknown(StoreAway):
    """The connection broke, or no answer came in time, and whether it was done is not known: look before you repeat it.

    A put with a key may be repeated.
    """


class StoreClosed(StoreError):
    """The store was closed: open another one."""


class StoreBusy(StoreError):
    """Somebody else kept the store locked for too long: try again."""


class StoreFull(StoreError):
    """There is no room on the disk: what was stored before is intact, and it goes on when there is room."""


class StoreReadOnly(StoreError):
    """The store may be read, not written."""


class StoreReplaced(StoreError):
    """The store's files were deleted or replaced while they were open: open it again, on what is there now."""


class StoreCorrupt(StoreError):
    """The store's file is damaged."""


class StoreTooNew(StoreError):
    """The store was written by a newer version of pywheel."""


class NotAStore(StoreError):
    """The address does not lead to a store of jobs."""


class BadAddress(NotAStore, ValueError):
    """The address can be none of a store, whatever is there: an unknown scheme or option, a port that is no number."""


for _error in __all__:
    globals()[_error].__module__ = "pywheel"  # where people import it from, in tracebacks and in the errors of jobs
