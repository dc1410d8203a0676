"""The dispatcher: one loop that turns due times into running handlers, and ends of handlers into acks.

Each step settles the jobs that finished since the last one, renews leases, and claims the next jobs, all in one
transaction. Handlers never wait for a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, Final

from .._errors import StoreAway, StoreClosed, StoreError, StoreReplaced
from ..clock import Clock
from ..events import ClockStepped, Events, PoolStuck, StoreBack, StoreFailed
from ..execution import admit
from ..jobs.commands import Announce, Claimed, Edit, Expire, Expired, SetNote
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
from .executors.pool import Outside, Pool, Runner
from .leases import LATE, Lease, Leases
from .topic_state import Places, TopicState

MAX_BYTES: Final = 64 << 20
_TEND: Final = 0.1  # seconds between looks whether a blocked runner still is
_HEAR: Final = 0.005  # seconds between two readings of hints on new jobs, while pools have enough to do
_BACKOFF: Final = (0.05, 1.0)  # seconds between tries while the store is away: first, longest
_EXPIRED: Final = 200  # leases that are ended in one step
_DEPUTY: Final = 500  # ms after which any worker ends leases that the worker in charge has not ended
_ORDERS: Final = 2.0  # seconds between looks for an operator's orders and limits
_PLANNER: Final = 20.0  # seconds between looks whether schedules have a planner; ticks are put further ahead than that


class Dispatcher:
    """The steps of a worker. One thread calls `step` and `sleep` in turn.

    pool        makes the pool of a handler
    kept        how long finished jobs are kept, in ms by state; a state without a time is kept for ever
    max_bytes   how many bytes of bodies may be in the pools
    concurrency how many jobs of all topics together run at once; None: as many as the handlers allow
    dead        called for each dead job: its last attempt has failed, or this worker has found its lease over
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
        self._membership = membership = Membership(notifier, handlers)
        outside = Outside(
            self._completer.done, notifier.wake, self._clock, events, partial(admit, store), lambda: membership.alive
        )
        self._concurrency = concurrency
        places = None if concurrency is None else Places(concurrency)
        self.topics = {
            name: TopicState(handler, pool(handler, outside), None if name == PLANNER else places)
            for name, handler in handlers.items()
        }
        self._unprepared = [topic.pool for topic in self.topics.values()]
        self._due_times = DueTimes(store, notifier, self.topics)
        self._claims = Claims(
            store, notifier.worker, self.topics, self._due_times, self._completer, events, max_bytes, places
        )
        self._next_lease: int | None = None  # when the next lease of any worker may be over
        self._pruning = Pruning(store, notifier.worker, kept or {})
        self._ends = EndsKept(store, notifier.worker, self.topics)
        self._clock_steps = ClockSteps(self._clock)
        self._plans = False  # whether the planner of schedules must learn that the clock was stepped
        self._dead = dead
        self._rung = True
        self._heard_at = 0.0
        self._paused = False  # whether topics were paused or resumed, and the others wait until this worker has obeyed
        self._announced = False
        self.forgotten = False
        """Whether the store had forgotten this worker, and the worker has announced itself again."""
        self._failures = 0
        self._tries = pauses(*_BACKOFF)
        self._retry_at = 0.0  # when to try the store again after a failure
        self._runners: set[Runner] = {topic.pool.runner for topic in self.topics.values()}
        self._planner_at = self._clock.time() + _PLANNER
        self.draining = False
        self.quiet = False
        """Whether this worker claims nothing until `take_again`."""
        self.order: bytes | None = None
        """An operator's order to this worker: a value of `ORDERS`."""
        self._order_at = 0.0
        self._overrides: dict[str, bytes] = {}  # the notes that set limits of topics, by name

    # ---- one step ---------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Do all work of this moment; return whether the store took it.

        StoreClosed, StoreReplaced: a further try would fail.
        """
        try:
            self._look()
            self._commit(self._clock.wall())
        except (StoreClosed, StoreReplaced):
            raise
        except Exception as error:  # noqa: BLE001  (after any error, the claims of this worker must still be ended)
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
        """Step, unless the store has failed and it is too early for another try."""
        if not self._failures or self._clock.time() >= self._retry_at:
            self.step()

    @property
    def prepared(self) -> bool:
        """Whether all pools can start jobs, or have found that they cannot."""
        self._unprepared = [pool for pool in self._unprepared if not pool.prepared]
        return not self._unprepared

    def announce(self) -> None:
        """Announce the topics of this worker: none while it drains; if it is quiet, marked as quiet. StoreError.

        The next step looks up all topics: no hints came for jobs that were put before.
        """
        if not self.draining:
            for topic in self.topics.values():
                topic.pool.prepare()
        me, topics = self._notifier.worker, () if self.draining else tuple(self.topics)
        notes = [self._pruning.end(), SetNote(order_note(me), None)] if self.draining else [self._pruning.begin()]
        if self.quiet:
            topics, notes = tuple(QUIET + name for name in self.topics), []
        found = self._store.apply([Announce(me, topics), *notes])
        if not self.draining and not isinstance(found[-1], StoreError):
            self._pruning.begun(self._clock.wall())  # saves a separate write right after the first claim
        self._announced = bool(topics)
        self._rung = True
        self._due_times.look_at_all()

    def _look(self) -> None:
        """Take in changes outside: the clock, the other workers, the jobs."""
        self._watch_clock()
        now, monotonic = self._clock.wall(), self._clock.time()
        if monotonic >= self._membership.look_at or self._rung:
            self._look_round(now, monotonic)
        if self._rung:
            if self._dead is not None and not self.draining:
                self._dead.rung()
            self._paused |= self._due_times.hear()
            self._rung, self._heard_at = False, monotonic
        if self._paused:
            self._take_back_paused()
            self._notifier.quiet()
            self._paused = False  # after success only: no other hint comes
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
        """Look at the other workers, the next end of a lease, orders, and overdue jobs that others have no room for."""
        if self._membership.look(monotonic, self._claims.behind(), self._spare):
            for topic in self.topics.values():  # at once: the next look does not say it again
                self._due_times.own(topic, self._membership.shards(topic.name))
        self._completer.waiters = self._membership.waiters
        self._next_lease = self._store.ask(GetNextLease())
        if monotonic >= self._order_at:
            with suppress(StoreAway):  # of several stores, the only one with the order may be away
                self.order = self._store.ask(GetNote(order_note(self._notifier.worker)))
            self._take_limits()
            self._order_at = monotonic + _ORDERS  # after success only: nothing is claimed before the limits are known
        if self._announced and self._membership.missed:
            # This worker stood still until the others took it for gone, or the store was emptied.
            self.announce()
            self.forgotten = True
        if self.draining:
            return
        if self._membership.some_overdue(now):
            self._due_times.look_at_all(self.topics[name] for name in self._spare())
        if self._membership.recovers and monotonic >= self._planner_at:
            ScheduleNotes(self._store).begin()  # the planner's job may have been cancelled
            self._planner_at = monotonic + _PLANNER

    def _take_limits(self) -> None:
        """Apply the operators' limits; topics without one have the limits of the code."""
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
        """Return the topics that have free places and no overdue jobs of which this worker knows."""
        if self.draining:
            return []
        return [name for name, topic in self.topics.items() if topic.begin and not topic.behind]

    def _take_back_paused(self) -> None:
        """Give back the jobs that wait in the pools of paused topics."""
        paused = {topic.name for topic in self._store.ask(ListTopics()) if topic.paused}
        for name in paused & self.topics.keys():
            self.topics[name].pool.pause()
            self._completer.give_back(self.topics[name].stuck())
            self._claims.drop(self.topics[name])

    def _commit(self, now: int) -> None:
        """Settle, renew and claim in one transaction; then prune in another."""
        asked = self._clock.time()
        settling = self._completer.commands(asked, self._claims.batches.full)
        renewals = self._leases.due(asked, self._claims.batches.slowest(asked)) if len(self._leases) else []
        expires_at = self._expires_at()
        expire = [Expire(_EXPIRED)] if expires_at is not None and now >= expires_at else []
        uncertain = self._claims.uncertain(asked)
        claims = [] if self.draining else self._claims.commands(asked)
        commands = [*settling, *map(Leases.command, renewals), *expire, *uncertain, *claims]
        if commands:
            try:
                found = self._store.apply(commands)
                answered = self._clock.time()
                confirmed = self._confirmed(found[-len(claims) :]) if claims and answered - asked > LATE else {}
            except BaseException:
                self._claims.failed(claims)
                self._completer.failed()
                raise
            outcomes = iter(found)
            self._claims.batches.took(answered - asked, answered)
            self._completer.learn(outcomes)
            for lease in renewals:
                self._completer.renewed(lease, next(outcomes), asked)
            for expired in islice(outcomes, len(expire)):
                self._completer.expired(expired)
                if isinstance(expired, Expired) and expired.ended < _EXPIRED:  # else the next step ends more
                    self._next_lease = expired.next_lease
            for _ in uncertain:
                next(outcomes)
            for claim in claims:
                self._claims.learn(claim, next(outcomes), asked, now, confirmed.get(claim.topic))
            intact(found)
        if self._completer.settled:
            self._ends.work(now)
        if not self.draining:
            self._pruning.work(now, busy=self._claims.overdue, in_charge=self._membership.recovers)

    def _confirmed(self, outcomes: Sequence[Any]) -> dict[str, float]:
        """Return by topic that is not paused the time of this look, if claims whose answer was slow got jobs.

        A pause that this look does not see comes after it, and finds this worker's sign of life, which comes before.
        So jobs may start for as long after the look as after a claim.
        """
        asked = self._clock.time()
        if any(isinstance(outcome, Claimed) and outcome.begun for outcome in outcomes):
            with suppress(StoreError):  # then their time counts from the claim
                if self._membership.confirm(self._claims.behind(), self._spare):
                    return {topic.name: asked for topic in self._store.ask(ListTopics()) if not topic.paused}
        return {}

    def _expires_at(self) -> int | None:
        """Return when to end leases that are over, so that their jobs are due again; None if no lease is known."""
        if self._next_lease is None or self.draining:
            return None
        return self._next_lease + (0 if self._membership.recovers else _DEPUTY)

    # ---- time -------------------------------------------------------------------------------------------------------

    def _watch_clock(self) -> None:
        """Begin anew if the wall clock was stepped: other jobs are due at the new time than at the old one."""
        step = self._clock_steps.look()
        if step:
            self._events.emit(ClockStepped(round(step, 3)))
            for topic in self.topics.values():
                topic.restart()
                self._completer.give_back(topic.stuck())  # another worker may have the job by now
            self._due_times.reset()
            self._pruning.again()
            self._rung = self._plans = True
        if self._plans:  # the planner of schedules also used the old clock
            self._store.apply([Edit(PLAN, delay=0)])
            self._plans = False

    def timeout(self) -> float:
        """Return after how many seconds the next work is due, if no one wakes the dispatcher before."""
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
        """Wait until there is work, or for `longest` seconds."""
        timeout, now = min(self.timeout(), longest), self._clock.time()
        if self._failures:
            self._rung |= self._notifier.wait(timeout)
            return
        until = now + timeout
        with self._completer.wakes(timeout, now) as pause:
            self._rung |= self._notifier.wait(pause)
            # While pools have enough to do, jobs that their own handlers put need not be noticed at once.
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
        """Whether pools of a kind have jobs, or ends of handlers are not stored yet."""
        if self._completer.alone:
            return any(isinstance(lease.topic.pool, only) for lease in self._running())
        return self._completer.busy or any(isinstance(lease.topic.pool, only) for lease in self._leases)

    def _running(self) -> list[Lease]:
        return [lease for lease in self._leases if lease.started is not None and not lease.ended]

    def drain(self) -> None:
        """Claim nothing more, and give back the jobs that have not started, unspent."""
        self.draining, self.quiet = True, False
        for topic in self.topics.values():
            self._completer.give_back(topic.stuck())

    def hush(self) -> None:
        """Drain until `take_again`."""
        self.drain()
        self.quiet = True

    def take_again(self) -> None:
        """Claim due jobs again, after `hush`."""
        self.draining = self.quiet = False
        self._membership.again()
        self._pruning.again()

    def keep_ends(self) -> None:
        """Store the counts of the last ends of jobs. StoreError."""
        self._ends.work(self._clock.wall(), last=True)

    def lose(self, only: type[Pool]) -> int:
        """Give back the running jobs of pools of a kind, whose runner is gone; return how many they are."""
        lost = [lease for lease in self._running() if isinstance(lease.topic.pool, only)]
        for lease in lost:
            lease.ended = self._clock.time()
        self._completer.give_back(lost)
        return len(lost)

    def abandon(self) -> list[Lease]:
        """Return the jobs that still run; from now on the end of each handler is stored at once, without a step."""
        self._completer.leave()
        return self._running()
