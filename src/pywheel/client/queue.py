"""The queue: what a program does with jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from .._errors import BadJob, StoreClosed
from ..clock import Clock
from ..events import Events, Listener
from ..jobs.checks import MOST, name, whole
from ..jobs.durations import Duration, duration
from ..jobs.handler import Handler
from ..jobs.job import Job
from ..jobs.keyring import Keyring
from ..jobs.limits import Limit, Rate, limits_of
from ..jobs.middleware import Middleware
from ..jobs.providers import Providers
from ..jobs.redefined import redefined
from ..jobs.retry import DEFAULT, RetryPolicy
from ..observe.log import log
from ..stores.contract import Store
from ..stores.encrypted import EncryptedStore
from ..stores.open import open as open_store
from ..stores.schedule_notes import Declared
from .async_batches import AsyncBatches
from .by_filter import ByFilter
from .claims import Claims
from .puts import Puts
from .results import Results
from .schedules import Schedules
from .tasks import Tasks
from .waits import Waits

__all__ = ["JobQueue"]

MAX_BODY: Final = 1 << 20
F = TypeVar("F", bound=Callable[[Job], Any])
Place: TypeAlias = str | Store | Callable[[], str | Store]


class _WhenUsed:
    """An attribute that opens the store when it is asked for first; from then on the queue has its own.

    Not a `__getattr__`: with one, every other attribute takes as long.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, queue: Any, owner: type) -> Any:
        return self if queue is None else vars(queue._ready())[self._name]


class JobQueue(Puts, Results, ByFilter, Claims, Tasks, Schedules):
    """Durable delayed jobs in a store: ``sqlite:///jobs.db``, ``memory:``.

    Any thread may call any method. Each has a twin with an ``a`` before its name, a coroutine: ``await
    queue.aput(...)``. A *reference* to a job is its id, the Job itself, or a pair (topic, key), which means the live
    job with that key, or else the latest. All methods raise StoreError when the store cannot do it, and BadJob for
    arguments that make no sense. An error means that nothing was done, with two exceptions: a change of many by filter
    goes on in batches, and a commit that a signal handler interrupted may have happened; its StoreError says so.

    Args:
        url: the address of a store, or a Store; or a function that returns one, called when the queue is used first.
            Until then nothing is opened, and StoreError is raised there: for a program that makes its queue before
            its settings are known, or before its server forks.
        clock: for tests: what the store goes by, such as a ManualClock.
        create: whether a store that is not there is made.
        max_body: the longest body, in bytes.
        listeners: who is told of what happens; each is called with an event of `pywheel.events`.
        spool: the address of a file of its own, ``sqlite:///spool.db``, for puts while the store is away, also as the
            queue is made. They are forwarded once it is back; docs/jobs.md says what holds.
        encryption: the keys with which bodies are encrypted in the store, and decrypted for who may read them.

    Raises:
        StoreError: the store cannot be opened.
        BadJob: an argument makes no sense.
    """

    def __init__(
        self,
        url: Place = "sqlite:///jobs.db",
        *,
        clock: Clock | None = None,
        create: bool = True,
        max_body: int = MAX_BODY,
        listeners: Iterable[Listener] = (),
        spool: str | None = None,
        encryption: Keyring | None = None,
    ) -> None:
        if encryption is not None and not isinstance(encryption, Keyring):
            raise BadJob(f"encryption is a Keyring, not {type(encryption).__name__}")
        self._keyring = encryption
        self.max_body = whole(max_body, "max_body", MOST)
        self.events = Events(listeners, log)
        self.handlers: dict[str, Handler] = {}
        self.declared = Declared()
        self.middleware = Middleware()
        self._providers = Providers()
        self._opener: Callable[[], Store] = partial(_placed, url, clock, create, spool, self.events)
        if not callable(url):
            self._ready()

    def __repr__(self) -> str:
        return f"<JobQueue {self.store.url if 'store' in vars(self) else '(not used yet)'}>"

    if not TYPE_CHECKING:
        store = _WhenUsed()
        _batches = _WhenUsed()
        _waits = _WhenUsed()

    def _ready(self) -> Self:
        """Open the store. No lock, which a fork could leave locked: of two threads one closes what it opened."""
        store = self._front(self._opener())
        if vars(self).setdefault("store", store) is not store:
            store.close()
        vars(self).setdefault("_batches", AsyncBatches(self.store, self._applied))
        vars(self).setdefault("_waits", Waits(self.store))
        if self._opener is _closed:  # meanwhile
            self._close()
        return self

    # ---- handlers ---------------------------------------------------------------------------------------------------

    def handler(
        self,
        topic: str,
        *,
        concurrency: int = 8,
        ttr: Duration = 60,
        retry: RetryPolicy = DEFAULT,
        keep_lease: bool = False,
        isolate: bool = False,
        results: bool = False,
        limit: int | Limit | None = None,
        rate: str | Rate | None = None,
    ) -> Callable[[F], F]:
        """Return a decorator that registers a topic's handler: a function or coroutine function that takes the Job.

        It succeeds by returning. Any exception is a failed attempt, retried as `retry` says; GiveUp makes the job dead
        at once, RetryLater names the delay.

        Args:
            topic: whose jobs it handles.
            concurrency: how many may run at once in a worker.
            ttr: how long one may run until another worker may have its job, more than 0.
            retry: when a failed job is tried again, and how often.
            keep_lease: renew the lease for as long as the handler runs and its process lives.
            isolate: run each job in a child process. It is killed at the ttr, unless the lease is kept; a job that
                crashes it has failed, and no other one notices. The child imports the handler's module.
            results: keep what it returns, for `result` and `wait`: bytes as they are, anything else as JSON, up to
                64 KiB. With a value that cannot be kept the job is dead at once: its work would only be done again.
            limit: how many may run at once in the whole store: at most 1 000 000. ``Limit(3, per=":")``: how many of
                those whose keys are the same up to the first ":". Each worker of the topic is to say the same.
            rate: how many may begin in a time, in the whole store, such as "100/m" or "5/s", or a `Rate`.

        Raises:
            BadJob: the topic has a handler, or an argument makes no sense, such as a generator function, or
                a lambda that another process cannot find by name. In a notebook, or at a prompt, a function takes the
                place of the one of its name that was there.
        """
        named = name(topic, "topic")
        lease, limits = duration(ttr, "ttr", 1), limits_of(limit, rate)

        def register(function: F) -> F:
            if named in self.handlers and not redefined(self.handlers[named].function, function):
                raise BadJob(f"topic {named[:80]!r} has a handler already")
            self.handlers[named] = Handler(
                named, function, concurrency, lease, retry, keep_lease, isolate, results, limits
            )
            return function

        return register

    # ---- life -------------------------------------------------------------------------------------------------------

    def use(self, url: str | Store, *, clock: Clock | None = None, create: bool = True) -> None:
        """Go over to another store, without a spool, and close the one before; the handlers stay.

        For tests of a program that has made its queue: ``shop.queue.use("memory:", clock=clock)``. To be called
        while nobody else uses the queue. Errors as when a queue is made; then it keeps its store.
        """
        store = self._front(_opened(url, clock, create=create))
        self._close()
        self._work_on(store)

    def use_keys(self, keyring: Keyring) -> None:
        """Encrypt and decrypt with these keys, unless the queue was made with a keyring.

        What runs a program does so with the keys of its environment. To be called while nobody else uses the queue.
        """
        if self._keyring is None:
            self._keyring = keyring
            if "store" in vars(self):
                self._waits.close()
                self._batches.close()
                self._work_on(self._front(self.store))

    def _work_on(self, store: Store) -> None:
        self.store, self._batches, self._waits = store, AsyncBatches(store, self._applied), Waits(store)

    def _front(self, store: Store) -> Store:
        """Return what the queue works on: the store, or one in front of it."""
        return store if self._keyring is None else EncryptedStore(store, self._keyring)

    def close(self) -> None:
        """Close the queue and its store. Idempotent. What is under way ends; later calls raise StoreClosed."""
        self._opener = _closed
        self._close()

    def _close(self) -> None:
        if "store" in vars(self):  # else it was never used
            self._waits.close()
            self._batches.close()
            self.store.close()

    def _let_go(self) -> None:
        """Close the store; the next use opens it anew. For a queue that was given a function."""
        self._close()
        for opened in ("store", "_batches", "_waits"):
            vars(self).pop(opened, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _closed() -> Store:
    raise StoreClosed("this queue is closed: open another one")


def _placed(url: Place, clock: Clock | None, create: bool, spool: str | None, events: Events) -> Store:
    """Open a store. Not a method: a queue that keeps one of its own would only be freed by the garbage collector."""
    place = url if isinstance(url, str | Store) or not callable(url) else url()
    opener = partial(_opened, place, clock, create=create)
    return opener() if spool is None else _spooled(place, opener, spool, clock, events)


def _spooled(url: str | Store, opener: Callable[[], Store], spool: str, clock: Clock | None, events: Events) -> Store:
    from .spooled_store import SpooledStore  # most queues have none, and do without SQLite

    return SpooledStore(url, opener, spool, clock, events.emit)


def _opened(url: str | Store, clock: Clock | None, *, create: bool) -> Store:
    if clock is not None and not isinstance(clock, Clock):
        raise BadJob(f"a clock is a pywheel.Clock, not {clock!r:.40}")
    if not isinstance(url, Store):
        return open_store(url, clock=clock, create=create)
    if clock is not None:
        raise BadJob("a store has a clock of its own: give the clock to the store")
    return url
