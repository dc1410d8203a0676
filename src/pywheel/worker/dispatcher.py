"""The dispatcher: one loop that turns due times into running handlers, and ends of handlers into acks.

Each step is one transaction at most: what finished since the last step, leases, chores, and the next claims. It is the
only one in the worker that talks to the store, so handlers never wait for a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

from .._errors import StoreAway, StoreClosed, StoreError, StoreReplaced
from ..clock import Clock
from ..events import ClockStepped, Events, PoolStuck, StoreBack, StoreFailed
from ..execution import admit
from ..jobs.commands import Announce, Edit, Expire, Expired, SetNote
from ..jobs.handler import Handler
from ..jobs.job import State
from ..jobs.limits import OVERRIDES, LimitOverride, override_name
from ..jobs.queries import QUIET, GetNextLease, GetNote, ListTopics
from ..stores.contract import Store, intact, notes, pauses
from ..stores.notifier import Notifier, order_note
from ..stores.schedule_notes import PLAN, ScheduleNotes
from ..stores.schedule_notes import TOPIC as PLANNER
from .chores import ClockSteps, EndsKept, Membership, Pruning
from .claims import Claims
from .completer import SOON, Completer
from .deaths import Deaths
from .due_times import DueTimes
from .executors import Outside, Pool, Runner
from .leases import Lease, Leases
from .topic_state import Places, TopicState

__all__ = ["Dispatcher"]

MAX_BYTES: Final = 64 << 20
_TEND: Final = 0.1  # seconds between looks whether what is blocked still is
_HEAR: Final = 0.005  # seconds between two hearings of what others put, while pools have enough to do
_BACKOFF: Final = (0.05, 1.0)  # seconds between tries while the store is away: first, longest
_EXPIRED: Final = 200  # leases that are ended in one step
_DEPUTY: Final = 500  # ms after which any worker does what the one in charge has not done
_ORDERS: Final = 2.0  # seconds between looks whether an operator has told this worker something, or set limits
_PLANNER: Final = 20.0  # seconds between looks whether schedules have a planner: ticks for longer are put ahead


class Dispatcher:
    """Steps through the life of a worker. `step` and `sleep` are called in turn, by one thread.

    pool        makes the pool of a handler
    kept        how long finished jobs are kept; nothing for ever
    max_bytes   how many bytes of bodies may be in the pools
    concurrency how many jobs run at once, of whatever topics; None: as many as their handlers may
    dead        told of each job that is dead: its last attempt has failed, or this worker has found its lease over
    """

    def __init__(
        self,
        store: Store,
        notifier: Notifier,
        handlers: Mapping[str, Handler],
        pool: Callable[[Handler, Outside], Pool],
        events: Events,
        *,
        kept: dict[State, int] | None = None,
        max_bytes: int = MAX_BYTES,
        concurrency: int | None = None,
        dead: Deaths | None = None,
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._clock: Clock = store.clock
        self._events = events
        self._completer = Completer(store, notifier, events, dead)
        self._leases = self._completer.leases
        outside = Outside(self._completer.done, self._clock, events, partial(admit, store))
        self._concurrency = concurrency
        places = None if concurrency is None else Places(concurrency)
        self.topics = {
            name: TopicState(handler, pool(handler, outside), None if name == PLANNER else places)
            for name, handler in handlers.items()
        }
        self._due_times = DueTimes(store, notifier, self.topics)
        self._claims = Claims(
            store, notifier.worker, self.topics, self._due_times, self._completer, events, max_bytes, places
        )
        self._membership = Membership(notifier, handlers)
        self._next_lease: int | None = None  # when the next lease may be over, whosesoever
        self._pruning = Pruning(store, notifier.worker, kept or {})
        self._ends = EndsKept(store, notifier.worker, self.topics)
        self._clock_steps = ClockSteps(self._clock)
        self._plans = False  # whether the planner of schedules is to be told that the clock was stepped
        self._dead = dead
        self._rung = True
        self._heard_at = 0.0
        self._announced = False
        self.forgotten = False
        """Whether the store did not know this worker any more, and it has announced itself again."""
        self._failures = 0
        self._tries = pauses(*_BACKOFF)
        self._retry_at = 0.0  # when to try the store again after a failure
        self._runners: set[Runner] = {topic.pool.runner for topic in self.topics.values()}
        self._planner_at = self._clock.time() + _PLANNER
        self.draining = False
        self.quiet = False
        """Whether it claims nothing until it is told otherwise."""
        self.order: bytes | None = None
        """What an operator wants of this worker: a value of `ORDERS`."""
        self._order_at = 0.0
        self._overrides: dict[str, bytes] = {}  # the notes that set limits of topics, by name

    # ---- one step ---------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do all there is to do now, in one transaction; return whether the store took it.

        StoreClosed, StoreReplaced: there is no point in trying again.
        """
        try:
            self._look()
            self._commit(self._clock.wall())
        except (StoreClosed, StoreReplaced):
            raise
        except Exception as error:  # noqa: BLE001  (whatever it is, the claims of this worker must be ended)
            self._failures += 1
            self._rung = True
            self._events.emit(StoreFailed(error, self._failures, len(self._completer)))
            self._retry_at = self._clock.time() + next(self._tries)
            return False
        if self._failures:
            self._events.emit(StoreBack(self._failures))
            self._failures, self._tries = 0, pauses(*_BACKOFF)
        return True

    def go_on(self) -> None:
        """Step, unless the store failed, and it is too early to try again."""
        if not self._failures or self._clock.time() >= self._retry_at:
            self.step()

    def announce(self) -> None:
        """Say which topics are handled here; none while draining, unless that may end. StoreError.

        What was put before is read afterwards: until then nobody was told of it.
        """
        me, topics = self._notifier.worker, () if self.draining else tuple(self.topics)
        notes = [self._pruning.end(), SetNote(order_note(me), None)] if self.draining else [self._pruning.begin()]
        if self.quiet:
            topics, notes = tuple(QUIET + name for name in self.topics), []
        found = self._store.apply([Announce(me, topics), *notes])
        if not self.draining and not isinstance(found[-1], StoreError):
            self._pruning.begun(self._clock.wall())  # so no write of its own comes right after the first claim
        self._announced = bool(topics)
        self._rung = True
        self._due_times.look_at_all()

    def _look(self) -> None:
        """See what has changed outside: the clock, the other workers, the jobs."""
        self._watch_clock()
        now, monotonic = self._clock.wall(), self._clock.time()
        if monotonic >= self._membership.look_at or self._rung:
            self._look_round(now, monotonic)
        if self._rung:
            if self._dead is not None and not self.draining:
                self._dead.rung()
            paused = self._due_times.hear()
            self._rung, self._heard_at = False, monotonic
            if paused:
                self._take_back_paused()
                self._notifier.quiet()
        for topic, blocked in self._leases.stuck(monotonic).items():
            if blocked:
                topic.pool.runner.block()
            back = topic.stuck()
            self._completer.give_back(back)
            self._events.emit(PoolStuck(topic.name, len(back)))
        if not self.draining:
            self._due_times.advance(now)
            if self._concurrency is not None:
                self._due_times.look_at_all(self._claims.contested(monotonic))
            self._due_times.look(now)

    def _look_round(self, now: int, monotonic: float) -> None:
        """See who else is there, which leases end, and whether jobs are overdue that others have no room for."""
        changed = self._membership.look(monotonic, self._claims.behind(), self._spare)
        self._completer.waiters = self._membership.waiters
        self._next_lease = self._store.ask(GetNextLease())
        if monotonic >= self._order_at:
            with suppress(StoreAway):  # of several stores it may be the one that has the order alone
                self.order = self._store.ask(GetNote(order_note(self._notifier.worker)))
            self._take_limits()
            self._order_at = monotonic + _ORDERS  # not before: nothing is claimed as long as the limits are not known
        if self._announced and self._membership.missed:
            # It was stopped for so long that the others have taken it for gone, or the store was emptied.
            self.announce()
            self.forgotten = True
        if self.draining:
            return
        if changed:
            for topic in self.topics.values():
                self._due_times.own(topic, self._membership.shards(topic.name))
        if self._membership.some_overdue(now):
            self._due_times.look_at_all(self.topics[name] for name in self._spare())
        if self._membership.recovers and monotonic >= self._planner_at:
            self._planner_at = monotonic + _PLANNER
            ScheduleNotes(self._store).begin()  # somebody may have cancelled its job

    def _take_limits(self) -> None:
        """Limit topics as operators say, and all others as code does."""
        found = dict(notes(self._store, OVERRIDES)) if self._store.keeps_limits else {}
        if found == self._overrides:
            return
        self._overrides = found
        for topic in self.topics.values():
            override = LimitOverride.read(found.get(override_name(topic.name)))
            limits = topic.handler.limits if override is None else override.limits
            if limits != topic.limits:
                self._claims.limit(topic, limits)

    def _spare(self) -> list[str]:
        """Return the topics of which more could begin at once than is known to be due."""
        if self.draining:
            return []
        return [name for name, topic in self.topics.items() if topic.begin and not topic.behind]

    def _take_back_paused(self) -> None:
        """Give back what waits in the pools of paused topics."""
        paused = {topic.name for topic in self._store.ask(ListTopics()) if topic.paused}
        for name in paused & self.topics.keys():
            self.topics[name].pool.pause()
            self._completer.give_back(self.topics[name].stuck())
            self._claims.drop(self.topics[name])

    def _commit(self, now: int) -> None:
        """Settle, renew and claim in one transaction; then prune in another."""
        asked = self._clock.time()
        settling = self._completer.commands(asked, self._claims.batches.full)
        renewals = [*self._leases.begins(asked), *self._leases.renewals(asked)] if len(self._leases) else []
        expires_at = self._expires_at()
        expire = [Expire(_EXPIRED)] if expires_at is not None and now >= expires_at else []
        uncertain = self._claims.uncertain(asked)
        claims = [] if self.draining else self._claims.commands(asked)
        commands = [*settling, *map(Leases.command, renewals), *expire, *uncertain, *claims]
        if commands:
            try:
                found = self._store.apply(commands)
            except BaseException:
                self._claims.failed(claims)
                self._completer.failed()
                raise
            outcomes = iter(found)
            self._claims.batches.took(self._clock.time() - asked)
            self._completer.learn(outcomes)
            for lease in renewals:
                self._completer.renewed(lease, next(outcomes), asked)
            for expired in islice(outcomes, len(expire)):
                self._completer.expired(expired)
                if isinstance(expired, Expired):
                    self._next_lease = expired.next_lease
            for _ in uncertain:
                next(outcomes)
            for claim in claims:
                self._claims.learn(claim, next(outcomes), asked, now)
            intact(found)
        if self._completer.settled:
            self._ends.work(now)
        if not self.draining:
            self._pruning.work(now, busy=self._claims.overdue, in_charge=self._membership.recovers)

    def _expires_at(self) -> int | None:
        """Return when to end the leases that are over, so that their jobs are due again; None if there are none."""
        if self._next_lease is None or self.draining:
            return None
        return self._next_lease + (0 if self._membership.recovers else _DEPUTY)

    # ---- time -------------------------------------------------------------------------------------------------------

    def _watch_clock(self) -> None:
        """Begin anew if the wall clock was stepped: what was due at its old time is not what is due at its new one."""
        step = self._clock_steps.look()
        if step:
            self._events.emit(ClockStepped(round(step, 3)))
            for topic in self.topics.values():
                topic.restart()
                self._completer.give_back(topic.stuck())  # its lease may be over by now, and the job another's
            self._due_times.reset()
            self._pruning.again()
            self._rung = self._plans = True
        if self._plans:  # the planner of schedules reckoned by the old clock, too
            self._store.apply([Edit(PLAN, delay=0)])
            self._plans = False

    def timeout(self) -> float:
        """Return for how many seconds there is nothing to do, unless somebody wakes it."""
        now = self._clock.time()
        if self._failures:
            return max(self._retry_at - now, 0.0)
        times = [self._membership.look_at - now]
        look_at = self._leases.look_at(now)
        if look_at is not None:
            times.append(look_at - now)
        if not self.draining:
            walls = self._due_times.next_deadline(), self._expires_at(), self._pruning.due_at
            times += [self._clock.until(wall) for wall in walls if wall is not None]
            times += self._claims.due_again(now)
        for runner in self._runners:
            if runner.blocked:
                runner.tend()
                times.append(_TEND)
        for topic in self._claims.fed_still():
            if topic.pool.waiting:
                times.append(min(SOON, (topic.pool.tend(now) or now + SOON) - now))
        timeout = max(min(times), 0.0)
        return 0.0 if self._completer.due(now + timeout, now) else timeout

    def sleep(self, longest: float = 1.0) -> None:
        """Wait until there is something to do, or so many seconds."""
        timeout, now = min(self.timeout(), longest), self._clock.time()
        if self._failures:
            self._rung |= self._notifier.wait(timeout)
            return
        until = now + timeout
        with self._completer.wakes(timeout, now) as pause:
            self._rung |= self._notifier.wait(pause)
            # Pools that have enough to do need not hear at once of each job that their own handlers put.
            while (
                self._rung and self._completer.asleep and any(topic.pool.waiting for topic in self._claims.fed_still())
            ):
                now = self._clock.time()
                pause = min(until, self._heard_at + _HEAR) - now
                if pause <= 0:
                    return
                self._rung |= self._notifier.wait(pause)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def busy(self, only: type[Pool] | tuple[type[Pool], ...] = Pool) -> bool:
        """Whether handlers run, in pools of a kind, or ended without the store knowing."""
        if self._completer.alone:
            return any(isinstance(lease.topic.pool, only) for lease in self._running())
        return bool(len(self._completer)) or any(isinstance(lease.topic.pool, only) for lease in self._leases)

    def _running(self) -> list[Lease]:
        return [lease for lease in self._leases if lease.started is not None and not lease.ended]

    def drain(self) -> None:
        """Claim nothing more, and give back what was not started, unspent."""
        self.draining, self.quiet = True, False
        for topic in self.topics.values():
            self._completer.give_back(topic.stuck())

    def hush(self) -> None:
        """Drain until `take_again`."""
        self.drain()
        self.quiet = True

    def take_again(self) -> None:
        """Claim again what is due."""
        self.draining = self.quiet = False
        self._membership.again()
        self._pruning.again()

    def keep_ends(self) -> None:
        """Keep in the store what became of the last jobs. StoreError."""
        self._ends.work(self._clock.wall(), last=True)

    def lose(self, only: type[Pool]) -> int:
        """Give back what runs in pools of a kind, as nothing goes on there; return how many jobs that are."""
        lost = [lease for lease in self._running() if isinstance(lease.topic.pool, only)]
        for lease in lost:
            lease.ended = self._clock.time()
        self._completer.give_back(lost)
        return len(lost)

    def abandon(self) -> list[Lease]:
        """Return what still runs; from now on each settles itself when its handler ends."""
        self._completer.alone = True
        return self._running()
