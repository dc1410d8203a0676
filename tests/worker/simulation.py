"""A world in one thread: clients, a store that fails, workers that crash, stop, drain and come back, a clock by hand.

Everything follows from the seed. The checks are the accounting of a queue: all jobs that were put are delivered, none
early, none after a confirmed cancel, none of a paused topic once its worker knows, and again only after a failed
attempt or a lost lease. No due job waits for long while a worker that handles its topic has room. A job that kills its
process is dead after its attempts and takes no other with it.
"""

import random
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from itertools import count

from pywheel import JobExists, JobQueue, ManualClock, StoreError
from pywheel.jobs import State
from pywheel.jobs.commands import Claim, Pause
from pywheel.jobs.lifecycle import LOST_BEGUN, LOST_HELD
from pywheel.jobs.queries import Filter, GetJob, ListFirstDue, ListJobs, ListTopics
from pywheel.jobs.retry import RetryPolicy
from pywheel.stores import open
from pywheel.stores.notifier import SILENT
from pywheel.stores.sqlite import page
from pywheel.testing import FaultyStore
from tests.worker.plants import Planted
from tests.worker.simulated_network import Network
from tests.worker.simulated_worker import Killed, SimulatedWorker

NOW = 1_700_000_000_000
HOUR = 3_600
TOPICS = ("a", "b", "c")
TTR = 2.0  # seconds
LIMIT = 2  # jobs of a topic at once, in half of the worlds
FREED = 0.3  # seconds in which a place under a limit that is free may not be taken yet
PATIENCE = 2.0  # seconds that a due job may wait while somebody has room for it
GONE = 1.25  # times a notifier's `silent`, and TURN seconds: that much more for each worker that goes silent meanwhile,
TURN = 0.1  # as each may have been the owner in its turn
TROUBLE = 1.6  # seconds after a fault of the store in which its workers may be away
TRIAL = 0.35  # seconds that a job which may have killed its process keeps the others of that kind waiting, at first
POISON = b"poison"
POISONOUS = 4  # attempts that a job has which kills its process
HITS = 3  # attempts that a neighbour may lose to it, by which time it is tried for longer than any handler here takes


class Steady(RetryPolicy):
    """Half a second each time: a policy that says so once, as all its delays go along with each claim."""

    max_attempts = 10_000

    def __init__(self):
        super().__init__((500,), 0.0)


class World:
    """The store, the workers, and what the outside was told."""

    def __init__(self, seed, url, plant=None, *, network=False):
        self.random = random.Random(seed)
        self.clock = ManualClock(wall=NOW)
        self.failing = 0.0
        self.trouble_until = 0.0
        self.paused = set()
        self.calm = False
        store = open(url, clock=self.clock)
        self.caller = None  # the worker that has its turn
        self.waiting = set()  # workers that wait for an answer, while others have their turns
        self.killed = set()  # those of them whose process has died
        self.network = Network(Planted(store, plant) if plant else store, self)
        self.networked = network
        self.store = FaultyStore(self.network, self.fault)
        self.queue = JobQueue(self.store)
        self.limited = self.random.choice((None, "c"))
        if not self.store.inner.keeps_limits:  # a worker refuses them there
            self.limited = None
        self.taken = {}  # leases of the limited topic: until when, by the store's clock
        self.full_at = -FREED
        for topic in TOPICS:
            limit = LIMIT if topic == self.limited else None
            self.queue.handler(topic, concurrency=3, ttr=TTR, retry=Steady(), limit=limit)(print)
        self.due = {}  # id: the earliest due time that the outside may count on
        self.bodies = {}  # id: what a delivery may bring; several after a replacement that was not answered
        self.versions = count(1)
        self.edits = Counter()  # id: how often it was edited, which counts among its claims
        self.unanswered = set()  # ids that were to be claimed by a command that was not answered
        self.unsure = set()  # ids whose last change was not answered
        self.cancelled = set()
        self.overtaken = set()  # claims that were held unstarted while the clock was stepped: such a lease may be over
        self.delivered, self.spare = Counter(), Counter()
        self.waited = Counter()  # id: seconds that it was due, not claimed, and somebody had room
        self.longest = 0.0
        self.slow = {topic: self.random.choice([0.05, 0.7]) for topic in TOPICS}  # the part of its jobs that take long
        self.poisons = set()
        self.hits = Counter()  # (job, who killed its process): attempts
        self.wrong = []
        self.silence = 0.0
        self.workers = [SimulatedWorker(self, TOPICS[:2]), SimulatedWorker(self, TOPICS)]
        self.workers += [SimulatedWorker(self, self.some_topics()) for _ in range(self.random.randrange(4))]
        self.silence = GONE * SILENT + TURN  # on a server it lasts longer: there others look what is overlooked

    def fault(self, when, commands):
        if self.failing and self.random.random() < self.failing:
            self.troubled()
            for topic in {command.topic for command in commands if isinstance(command, Claim)}:
                self.unanswered.update(
                    job.id for job in self.store.inner.ask(ListJobs(Filter(topic, State.RUNNING), 0, 10_000))
                )
            raise StoreError(f"failed {when}")

    def troubled(self):
        self.trouble_until = self.clock.time() + TROUBLE

    def doubt(self):
        """Account for a call that others did not wait for: what it claims and settles may come late."""
        self.troubled()
        self.forgive_all()
        running = self.store.inner.ask(ListJobs(Filter(state=State.RUNNING), 0, 10_000))
        self.unanswered.update(job.id for job in running)

    def insist(self, true, text):
        """Let the history end at the end of this turn unless it is true: a worker survives what its pools raise."""
        if not true:
            self.wrong.append(text)

    # ---- what handlers do -------------------------------------------------------------------------------------------

    def started(self, lease, worker):
        """Account for a delivery; return how long it takes."""
        job = lease.job
        self.insist(job.topic not in worker.paused & self.paused, f"job {job.id} begins, and {job.topic} is paused")
        self.delivered[job.id] += 1
        self.takes_place(lease)
        held = job.lost == LOST_HELD and not self.spare[job.id] and job.id not in self.unanswered
        self.insist(not held, f"job {job.id} was lost unstarted, by a worker that went on")
        self.insist(job.due <= self.clock.wall(), f"job {job.id} is early")
        if (job.id, job.claims) not in self.overtaken:
            self.insist(job.id not in self.cancelled, f"job {job.id} was cancelled")
            if job.id in self.due and job.attempt == 1:
                self.insist(self.due[job.id] <= job.due, f"job {job.id} is early")
            self.insist(job.body in self.bodies.get(job.id, {job.body}), f"job {job.id} has an old body")
        if job.body == POISON:
            self.poisons.add(job.id)
            self.poisoned(job, worker)
            raise Killed
        if self.calm or self.random.random() > self.slow[job.topic]:
            return 0
        return self.random.choice([0.01, 0.3, 0.9 * TTR, 0.9 * TTR, 1.5 * TTR, 20])

    def claimed(self, jobs):
        """Account for the order of what one claim brought, and of what it left. Several stores have no common order.

        A job that was given back is told to its owner: others may pass it until they look at all that is due.
        """
        if not self.store.inner.keeps_limits or self.network.bad:  # more may have been put since
            return
        order = [(-job.priority, job.due, job.id) for job in jobs]
        self.insist(order == sorted(order), f"{order} are not in order")
        topic, least = jobs[0].topic, min(job.priority for job in jobs)
        if topic != self.limited and not any(job.lost for job in jobs):
            left = [self.store.inner.ask(GetJob(due.id)) for due in self.store.inner.ask(ListFirstDue(topic, 1))]
            passed = [job.id for job in left if self.first(job, least)]
            self.insist(passed == [], f"job {passed} was left, of a higher priority than {order}")

    def first(self, job, least):
        """Whether a job that was left comes before those of a priority: not one that was lost or given back."""
        return job.priority > least and not job.lost and job.claims - self.edits[job.id] == job.attempt

    def takes_place(self, lease):
        """Account for a limit: a handler that has not ended has its place until its lease is over.

        A claim that begins when it is over, as the clock was stepped since, has none.
        """
        if lease.job.topic == self.limited and self.clock.wall() < lease.job.lease_until:
            self.leases_end()
            self.insist(len(self.taken) < LIMIT, f"job {lease.job.id} is one too many")
            self.taken[lease] = lease.job.lease_until

    def leases_end(self):
        """Account for leases that are over, for good: the clock may go back again."""
        now = self.clock.wall()
        self.taken = {lease: until for lease, until in self.taken.items() if now < until}

    def full(self):
        """Return the jobs that a limit holds back, or did until now: an unanswered claim holds a place as well."""
        running = Filter(self.limited, State.RUNNING)
        if self.limited and len(self.store.inner.ask(ListJobs(running, 0, LIMIT))) == LIMIT:
            self.full_at = self.clock.time()
        return {self.limited} if self.clock.time() - self.full_at < FREED else set()

    def poisoned(self, job, worker):
        """Account for those that were running beside a job that kills its process."""
        now = self.clock.time()
        for topic in worker.dispatcher.topics.values():
            for lease in topic.pool.running:
                if now < lease.until and lease.job.id != job.id:
                    self.hits[lease.job.id, job.id] += 1

    def fails(self):
        return not self.calm and self.random.random() < 0.15

    def ended(self, lease):
        """Whatever is not an ack in time allows one more delivery."""
        self.taken.pop(lease, None)
        self.spare[lease.job.id] += lease.error is not None or self.clock.time() >= lease.until

    # ---- what may happen --------------------------------------------------------------------------------------------

    def put(self):
        delay = self.random.choice([0, 0, 0.001, 0.5, 5, 60, self.random.randrange(100)])
        now = self.clock.wall()
        with suppress(StoreError):  # perhaps stored: such a job may be delivered, and need not
            id = self.queue.put(self.random.choice(TOPICS), delay=delay, priority=self.random.choice([0, 0, 1, -1]))
            self.due[id] = now + int(delay * 1000)

    def put_many(self):
        topic, now = self.random.choice(TOPICS), self.clock.wall()
        with suppress(StoreError):
            ids = self.queue.put_many(self.queue.job(topic) for _ in range(self.random.randrange(30)))
            self.due.update(dict.fromkeys(ids, now))

    def put_with_key(self):
        """Put a job with a key: it is refused, or replaces one that waits, or is a new one."""
        topic, key, delay = self.random.choice(TOPICS), self.random.choice("kl"), self.random.randrange(20)
        due, body = self.clock.wall() + delay * 1000, b"%d" % next(self.versions)
        before = self.store.inner.ask(GetJob((topic, key)))
        known = before and self.due.get(before.id)
        if before is not None:  # it may be replaced and delivered before this hears of it
            self.bodies.setdefault(before.id, {before.body}).add(body)
        if known is not None:
            self.due[before.id] = min(due, known)
        try:
            id = self.queue.put(topic, body, delay=delay, key=key, replace=self.random.random() < 0.5)
        except JobExists:
            if before is not None:
                self.bodies[before.id].discard(body)
            if known is not None:
                self.due[before.id] = known
            return
        except StoreError:
            job = self.store.inner.ask(GetJob((topic, key)))
            if job is not None and job.id in self.due:  # perhaps replaced
                self.due[job.id] = min(due, self.due[job.id])
                self.bodies.setdefault(job.id, {job.body}).add(body)
            return
        self.due[id] = due
        self.bodies[id] = {body}
        self.waited.pop(id, None)

    def put_poison(self, topic=None):
        now = self.clock.wall()
        with suppress(StoreError):
            id = self.queue.put(topic or self.random.choice(TOPICS), POISON, max_attempts=POISONOUS)
            self.due[id] = now

    def pause(self):
        """Pause a topic, or let it go on; without waiting for the workers."""
        topic = self.random.choice(TOPICS)
        pausing = topic not in self.paused
        if not pausing:  # from now on its jobs may begin
            self.paused.discard(topic)
            for worker in self.workers:
                worker.paused.discard(topic)
        try:
            self.store.apply([Pause(topic, paused=pausing)])
        except StoreError:
            pausing = any(found.name == topic and found.paused for found in self.store.inner.ask(ListTopics()))
        if pausing:
            self.paused.add(topic)

    def cancel(self):
        if self.due:
            id = self.random.choice(list(self.due))
            try:
                if self.queue.cancel(id):
                    self.cancelled.add(id)
            except StoreError:
                self.unsure.add(id)

    def reschedule(self):
        if self.due:
            id = self.random.choice(list(self.due))
            known, due = self.due[id], self.clock.wall() + self.random.randrange(30_000)
            self.due[id] = min(due, known)  # it may be delivered before this hears of it
            with suppress(StoreError):
                moved = self.queue.reschedule(id, (due - self.clock.wall()) / 1000)
                self.due[id] = due if moved else known
                if moved:
                    self.waited.pop(id, None)

    def edit(self):
        """Give a job another body and priority: from then on that is what a delivery brings."""
        job = self.store.inner.ask(GetJob(self.random.choice(list(self.due)))) if self.due else None
        if job is None or job.body == POISON:
            return
        body = b"%d" % next(self.versions)
        self.bodies.setdefault(job.id, {job.body}).add(body)  # it may be delivered before this hears of it
        try:
            edited = self.queue.jobs.edit(job, body=body, priority=self.random.choice([0, 0, 1, -1]))
        except StoreError:
            edited = self.store.inner.ask(GetJob(job.id)).body == body
        if not edited:
            self.bodies[job.id].discard(body)
        else:
            self.bodies[job.id] = {body}
            self.edits[job.id] += 1

    def crash(self):
        """A worker dies: what it holds will be lost. Somebody starts another one, perhaps with other topics."""
        self.dies(self.random.choice(self.workers))

    def dies(self, worker):
        self.forgive(worker)
        self.unanswered.update(job.id for job in self.store.inner.ask(ListJobs(Filter(state=State.RUNNING), 0, 1_000)))
        self.silent()
        self.workers.remove(worker)
        if hasattr(worker.notifier, "after_fork"):
            worker.notifier.after_fork()  # its connection ends with its process: nobody says goodbye
        self.workers.append(SimulatedWorker(self, TOPICS if self.calm else self.some_topics()))

    def stop(self):
        """A worker is stopped, as by SIGSTOP, or by a machine that swaps."""
        worker = self.random.choice(self.workers)
        worker.stopped_until = self.clock.time() + self.random.choice([0.3, 1.5, 10])
        self.forgive(worker)
        self.silent()

    def block(self):
        """A worker can start no handler for a while: one of them blocks its loop, or the system has no thread."""
        worker = self.random.choice(self.workers)
        worker.blocked_until = self.clock.time() + self.random.choice([0.3, 1.5, 10])
        self.silent()

    def silent(self):
        self.waited = Counter({id: waited - self.silence for id, waited in self.waited.items()})

    def drain(self):
        """A worker is told to go, and another one comes."""
        worker = self.random.choice([worker for worker in self.workers if not worker.draining] or self.workers)
        worker.drain()
        self.workers.append(SimulatedWorker(self, self.some_topics()))
        gone = [w for w in self.workers if w.draining and not w.dispatcher.busy()]
        for worker in gone:
            worker.notifier.close()
            self.workers.remove(worker)

    def some_topics(self):
        """Every topic has a worker, whatever is drawn."""
        return TOPICS if self.random.random() < 0.5 else tuple(self.random.sample(TOPICS, 2))

    def forgive(self, worker):
        for lease in worker.dispatcher._leases:
            self.spare[lease.job.id] += 1

    def step_clock(self):
        seconds = self.random.choice([-HOUR, HOUR, -5, 5, -0.02, 0.02, -0.2])
        self.leases_end()
        held = [lease.job for worker in self.workers for lease in worker.unstarted()]
        self.overtaken.update((job.id, job.claims) for job in held)
        self.clock.step(seconds)
        self.leases_end()
        for worker in self.workers:  # a lease that ends at once is a lease lost; one that lasts an hour more is not
            self.forgive(worker)
        self.waited.clear()

    def trouble(self):
        self.failing = self.random.choice([0.0, 0.0, 0.3])
        self.network.bad = self.random.choice([0.0, 0.05, 0.2]) if self.networked else 0.0
        self.forgive_all()

    def forgive_all(self):
        """A claim or an ack that was not answered may cost a delivery."""
        for worker in self.workers:
            self.forgive(worker)

    # ---- time -------------------------------------------------------------------------------------------------------

    def turn(self):
        self.network.arrive()
        for worker in list(self.workers):
            if worker in self.waiting or worker not in self.workers:  # it has died while another one waited
                continue
            caller, self.caller = self.caller, worker
            self.waiting.add(worker)
            try:
                worker.turn()
            except Killed:
                self.dies(worker)
            finally:
                self.waiting.discard(worker)
                self.caller = caller
            assert not self.wrong, self.wrong[0]
        if self.failing:
            self.forgive_all()

    def meanwhile(self, seconds):
        """Let time pass while somebody waits for an answer: all others go on, and so do handlers."""
        while seconds > 0:
            self.clock.advance(timedelta(seconds=min(seconds, 0.1)))
            seconds -= 0.1
            for worker in [one for one in self.workers if one in self.waiting - self.killed]:
                try:
                    worker.let_handlers_end()
                except Killed:
                    self.killed.add(worker)
            self.turn()

    def pass_time(self, seconds):
        """Let time pass in steps that a machine would take, with everybody at work."""
        while seconds > 0:
            step = min(seconds, 0.1)
            self.account(step)
            self.clock.advance(timedelta(seconds=step))
            self.turn()
            seconds -= step

    def account(self, seconds):
        """Count for how long due jobs have waited though somebody had room."""
        roomy = {topic for topic in TOPICS if any(worker.has_room(topic) for worker in self.workers)}
        roomy -= self.paused | self.full()
        if not roomy or self.clock.time() < self.trouble_until:
            self.waited.clear()
            return
        waiting = Counter()
        due = self.store.inner.ask(ListJobs(Filter(state=State.DELAYED, due_until=self.clock.wall()), 0, 1_000))
        due += self.claimed_in_vain()
        suspects = sum(job.lost == LOST_BEGUN for job in due)
        for job in due:
            if job.topic in roomy:
                waited = waiting[job.id] = self.waited[job.id] + seconds
                self.longest = max(waited, self.longest)
                # Those that may have killed their process are tried one after the other, longer each time.
                patience = PATIENCE + (suspects * TRIAL * 4 ** min(max(job.attempt - 1, 0), 3) if job.lost else 0)
                assert waited <= patience, f"job {job.id} waits while somebody has room"
        self.waited = waiting

    def claimed_in_vain(self):
        """Return the jobs that a worker has claimed and not started, and is not stopped: there they wait as well."""
        leases = [lease for worker in self.workers if not worker.is_stopped for lease in worker.unstarted()]
        if not leases:
            return []
        running = {job.id: job for job in self.store.inner.ask(ListJobs(Filter(state=State.RUNNING), 0, 1_000))}
        waiting = [(running[lease.job.id], lease) for lease in leases if lease.job.id in running]
        return [job for job, lease in waiting if job.claims == lease.job.claims]

    def run(self, steps):
        actions = [self.put] * 8 + [self.put_many, self.cancel, self.reschedule, self.edit, self.trouble]
        actions += [self.crash, self.stop, self.block, self.drain, self.put_with_key, self.put_with_key, self.pause]
        actions += [self.put_poison] * (self.random.random() < 0.3)
        for _ in range(steps):
            self.random.choice(actions)()
            if self.random.random() < 0.02:
                self.step_clock()
            self.turn()
            self.pass_time(self.random.choice([0, 0.001, 0.01, 0.1, 0.5]))

    def finish(self):
        """Let all that is left be delivered: no more faults, and time passes."""
        self.failing = self.network.bad = 0.0
        self.calm = True
        for topic in list(self.paused):
            self.store.apply([Pause(topic, paused=False)])
        self.paused.clear()
        for worker in self.workers:
            worker.paused.clear()
        self.workers.append(SimulatedWorker(self, TOPICS))
        for _ in range(400):
            self.pass_time(0.5)
            if not any(count.delayed or count.running for count in self.queue.topics.counts().values()):
                return
            if self.random.random() < 0.2:
                self.forgive_all()
                self.clock.jump(900)
                self.waited.clear()
        raise AssertionError(f"jobs are left: {self.queue.topics.counts()}")

    def died_unheard(self, job):
        """Whether all attempts of a job that has few went to claims whose answers did not arrive in time."""
        return job.state is State.DEAD and job.id in self.unanswered and not self.delivered[job.id]

    def check(self):
        """Compare what the outside was told with what the store has."""
        self.forgive_all()  # handlers that hang to the end
        jobs = {id: self.store.inner.ask(GetJob(id)) for id in self.due}
        gone = [id for id, job in jobs.items() if job is None]
        assert gone == [], f"jobs {gone} are gone"
        unheard = {id for id, job in jobs.items() if self.died_unheard(job)}
        ended = {id for id, job in jobs.items() if job.state is State.CANCELLED} | unheard
        lost = [id for id in jobs if not self.delivered[id] and id not in ended]
        dead = self.poisons | unheard
        end = {id: State.DEAD if job.body == POISON and id in dead else State.DONE for id, job in jobs.items()}
        wrong = [id for id, job in jobs.items() if job.state not in (end[id], State.CANCELLED)]
        known = self.cancelled | self.unsure
        uncalled = [id for id, job in jobs.items() if job.state is State.CANCELLED and id not in known]
        extra = {id: n - 1 for id, n in self.delivered.items() if n - 1 > self.spare[id]}
        found = {"lost": lost, "wrong end": wrong, "cancelled": uncalled, "delivered too often": extra}
        assert not any(found.values()), found
        assert all(jobs[id].attempt == POISONOUS for id in self.poisons & set(jobs) if end[id] is jobs[id].state)
        # Behind a network the end of a claim may arrive after its worker was killed: then its job is not a suspect.
        most = POISONOUS if self.networked else HITS
        assert max(self.hits.values(), default=0) <= most, f"too many attempts were lost to another job: {self.hits}"


def play(seed, url, steps, plant=None, *, network=False):
    """Run one history to its end; whatever is wrong is an AssertionError.

    The store has a planted fault if asked, or is at the other end of a network that delays, repeats and reorders.
    """
    for draws in (random, page._random):  # of which the product draws; the second names workers
        draws.seed(seed)
    world = World(seed, url, plant, network=network)
    world.run(steps)
    world.finish()
    world.check()
    for worker in world.workers:
        worker.notifier.close()
    world.store.close()
    return world
