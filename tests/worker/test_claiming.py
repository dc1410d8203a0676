"""Whose turn it is, step by step, of a dispatcher whose steps are slow or fail."""

from datetime import UTC, datetime, timedelta
from itertools import cycle

import pytest

from pywheel import Fixed, JobQueue, Limit, StoreAway, Worker
from pywheel.events import LeaseLost
from pywheel.jobs import Outcome
from pywheel.jobs.commands import Ack, Announce, Claim, Claimed, ClaimPolicy, Expire, Pause, Reserve
from pywheel.jobs.job import SHARDS, SLICE, Due
from pywheel.jobs.limits import Limits
from pywheel.jobs.queries import Filter, GetNextLease, ListClaims, ListJobs, ListTopics
from pywheel.stores.ownership import ALL
from pywheel.worker.claims import BatchSizer
from pywheel.worker.leases import Lease, Leases, hold_of
from tests.asked import when_asked
from tests.often import often
from tests.worker.simulated_worker import NOW, CalmWorld, SimulatedWorker

STEP = 100  # ms, longer than the worker waits before it asks again, as on a slow disk
HOUR = 3_600_000


class Stage(CalmWorld):
    """The same, with handlers that take a while and may be tried often."""

    def __init__(self, url="memory:"):
        super().__init__(url)
        self.takes = 0.05

    def handler(self, topic, **options):
        self.queue.handler(topic, concurrency=3, ttr=60, retry=Fixed(0, attempts=9), **options)(print)

    def suspects(self, topic, count, **options):
        """Put jobs that were running when a process died."""
        self.queue.put_many(self.queue.job(topic, b"suspect", **options) for _ in range(count))
        self.store.apply([Reserve(topic, count, ClaimPolicy(1, 9), "dead")])
        self.clock.advance(timedelta(milliseconds=5))
        self.store.apply([Expire(count)])

    def play(self, *topics, steps):
        self.work([SimulatedWorker(self, topics)], steps)

    def work(self, workers, steps):
        self.pass_time(steps * STEP, *workers, step=STEP)


@pytest.fixture
def stage():
    found = Stage()
    with found.queue:
        yield found


def claims(stage):
    """Return a list of what is asked for from now on: claims with their outcomes."""
    found, apply = [], stage.store.apply

    def noting(commands):
        outcomes = apply(commands)
        found.extend(pair for pair in zip(commands, outcomes, strict=True) if isinstance(pair[0], Claim))
        return outcomes

    stage.store.apply = noting
    return found


def test_a_topic_that_is_full_does_not_take_the_turns_of_others_suspects(stage):
    stage.handler("full", limit=1)
    stage.handler("t")
    stage.queue.put_many(stage.queue.job("full") for _ in range(2))
    stage.store.apply([Reserve("full", 1, ClaimPolicy(HOUR, 9, limits=Limits(1)), "elsewhere")])
    stage.suspects("t", 3)
    stage.play("full", "t", steps=10)
    assert stage.queue.topics.counts()["t"].done == 3
    assert stage.queue.topics.counts()["full"].delayed == 1


def test_suspects_of_many_topics_have_their_turn_beside_one_that_always_has_something(stage):
    topics = ["a", "b", "c"]
    for topic in topics:
        stage.handler(topic)
        stage.suspects(topic, 2)
    stage.play(*topics, steps=20)
    assert [stage.queue.topics.counts()[topic].done for topic in topics] == [2, 2, 2]


def test_a_job_of_lower_priority_does_not_wait_for_the_trials_of_higher_ones(stage):
    stage.takes = 30
    stage.handler("t")
    stage.suspects("t", 8)
    stage.queue.put("t", b"healthy", priority=-1)
    stage.play("t", steps=1)
    assert [job.body for job in stage.begun] == [b"suspect", b"healthy"]


def test_jobs_that_others_had_locked_for_a_moment_are_claimed_together_again(stage, monkeypatch):
    """A store leaves what another transaction has locked, though it is due."""
    stage.handler("t")
    stage.queue.put_many(stage.queue.job("t") for _ in range(30))
    apply = stage.store.apply

    def locked(commands):
        found = [Due(job.due, job.id, "t", 0) for job in stage.store.ask(ListJobs(Filter("t"), 0, 100))]
        return [
            Claimed([], 0, found, paused=False) if isinstance(command, Claim) else apply([command])[0]
            for command in commands
        ]

    [worker] = workers = [SimulatedWorker(stage, ("t",))]
    with monkeypatch.context() as patched:
        patched.setattr(stage.store, "apply", locked)
        stage.work(workers, 2)
        assert worker.dispatcher._claims._suspected
    found = claims(stage)
    stage.work(workers, 11)
    assert len(stage.begun) == 30
    assert len(found) < 20


@pytest.mark.parametrize("lost", ["stopped_until", "blocked_until"])
def test_a_priority_that_a_worker_has_not_heard_of_is_found_when_its_owner_cannot_go_on(stage, lost):
    stage.handler("t")
    workers = [SimulatedWorker(stage, ("t",)) for _ in range(2)]
    stage.work(workers, 10)
    stage.queue.put("t", priority=5, delay=1)
    stage.work(workers, 1)
    [owner] = [worker for worker in workers if worker.dispatcher.topics["t"].priorities]
    setattr(owner, lost, 1e9)
    stage.work(workers, 40)
    assert len(stage.begun) == 1


def test_a_worker_owns_all_shards_of_a_topic_that_it_handles_alone(stage):
    """Ownership among all workers would leave half of each topic's jobs to one that has no handler for it."""
    for topic in "ab":
        stage.handler(topic)
    workers = [SimulatedWorker(stage, topics) for topics in ("a", "ab")]
    stage.work(workers, 30)
    [a, _], [both_a, both_b] = ([w.dispatcher._membership.shards(topic) for topic in "ab"] for w in workers)
    assert (both_b, a | both_a, a & both_a) == (ALL, ALL, 0)


def test_what_runs_is_not_given_back_when_a_later_claim_was_not_heard_of(stage, monkeypatch):
    stage.handler("t")
    stage.takes = 30
    stage.queue.put("t", b"runs")
    worker = SimulatedWorker(stage, ["t"])
    stage.work([worker], 3)
    monkeypatch.setattr(stage, "troubled", lambda: None)
    [runs] = stage.begun
    worker.dispatcher._claims._later = [0.25]
    stage.work([worker], 3)
    assert stage.queue.get(runs.id).state == "running"
    assert len(stage.begun) == 1


@pytest.mark.parametrize("touched", [True, False])
def test_a_job_has_its_place_of_the_worker_for_as_long_as_its_handler_has_the_lease(stage, touched):
    stage.queue.handler("t", concurrency=3, ttr=1)(print)
    stage.takes = 60
    stage.queue.put_many(stage.queue.job("t") for _ in range(3))
    worker = SimulatedWorker(stage, ["t"], concurrency=1)
    stage.work([worker], 3)
    [first] = stage.begun
    if touched:
        assert stage.queue.touch(first, 20)
    stage.work([worker], 100)
    assert (len(stage.begun) == 1) is touched
    stage.work([worker], 150)
    assert len(stage.begun) > 1, "it hangs, and its lease is over"


def test_a_job_whose_handler_prolongs_its_lease_has_its_place_while_the_store_is_away(stage, monkeypatch):
    stage.queue.handler("t", concurrency=3, ttr=1)(print)
    stage.takes = 60
    stage.queue.put_many(stage.queue.job("t") for _ in range(3))
    worker = SimulatedWorker(stage, ["t"], concurrency=1)
    stage.work([worker], 3)
    asked = []

    def cut_off(query):
        asked.append(query)
        raise StoreAway("cut off")

    when_asked(monkeypatch, stage.store, ListClaims, cut_off)
    stage.work([worker], 100)
    assert len(stage.begun) == 1
    assert 0 < len(asked) <= 12, "it rests between its questions"


# ---- what a limit asks for ------------------------------------------------------------------------------------------


def told(found):
    """Return how many jobs were looked at, and how many of them began."""
    looked = sum(len(outcome.jobs) + len(outcome.left) for _, outcome in found)
    return looked, sum(len(outcome.jobs) for _, outcome in found)


@pytest.mark.parametrize("limits", [{"limit": 1}, {"limit": Limit(1, per=":")}, {"rate": "10/s"}], ids=str)
def test_a_limit_asks_for_few_jobs_beside_those_that_it_starts(stage, limits):
    stage.queue.handler("t", concurrency=50, **limits)(print)
    stage.queue.put_many(stage.queue.job("t", key=f"group:{n}") for n in range(3_000))
    worker = SimulatedWorker(stage, ["t"])
    stage.work([worker], 20)  # it has looked past the backlog
    found = claims(stage)
    stage.work([worker], 200)
    asked, begun = told(found)
    assert begun >= 150
    assert asked <= 3 * begun + 3_000  # and it looked past the backlog once more at most


def test_a_limit_by_key_asks_for_few_jobs_of_groups_that_are_not_full(stage):
    stage.queue.handler("t", concurrency=8, limit=Limit(1, per=":"))(print)
    stage.queue.put_many(stage.queue.job("t", key=f"{n % 100}:{n}") for n in range(3_000))
    found = claims(stage)
    stage.work([SimulatedWorker(stage, ["t"])], 100)
    asked, begun = told(found)
    assert begun >= 790
    assert asked <= 3 * begun


def test_workers_that_share_a_limit_ask_for_few_jobs_beside_those_that_they_start(stage):
    stage.queue.handler("t", concurrency=8, limit=Limit(1, per=":"), ttr=60)(print)
    stage.queue.put_many(stage.queue.job("t", key=f"group:{n}") for n in range(1_500))
    stage.clock.advance(timedelta(milliseconds=1))
    workers = [SimulatedWorker(stage, ["t"]) for _ in range(4)]
    stage.work(workers, 30)
    found = claims(stage)
    stage.work(workers, 100)
    asked, begun = told(found)
    assert begun >= 75
    assert asked <= 20 * begun


@pytest.mark.parametrize("limits", [{}, {"limit": 1}, {"limit": Limit(1, per=":")}], ids=str)
def test_a_paused_topic_is_asked_once_and_goes_on_when_it_is_resumed(stage, limits):
    stage.handler("t", **limits)
    stage.queue.put_many(stage.queue.job("t", key=f"a:{n}") for n in range(30))
    stage.store.apply([Pause("t", paused=True)])
    worker = SimulatedWorker(stage, ["t"])
    found = claims(stage)
    stage.work([worker], 50)
    assert len(found) <= 2
    worker.turn()
    assert worker.dispatcher.timeout() > 0  # it sleeps
    stage.queue.topics.resume("t")
    stage.work([worker], 50)
    assert len(stage.begun) == 30


def test_places_of_a_group_that_other_workers_free_are_found(stage):
    stage.handler("t", limit=Limit(2, per=":"))
    stage.queue.put_many(stage.queue.job("t", key=f"{group}:{n}") for group in "ab" for n in range(2))
    held = stage.store.apply([Reserve("t", 4, ClaimPolicy(HOUR, 9), "elsewhere")])[0]
    stage.queue.put_many(stage.queue.job("t", key=f"b:{n}") for n in range(2, 9))  # a group that stays full
    stage.queue.put_many(stage.queue.job("t", key=f"a:{n}") for n in range(2, 900))
    worker = SimulatedWorker(stage, ["t"])
    stage.work([worker], 20)
    assert not stage.begun
    stage.queue.ack(held[0])
    stage.work([worker], 20)
    assert len(stage.begun) >= 18  # one after the other
    stage.queue.ack(held[1])
    stage.work([worker], 20)
    assert len(stage.begun) >= 18 + 38
    assert [job.key for job in stage.begun] == [f"a:{n + 2}" for n in range(len(stage.begun))]


def test_what_a_backlog_claim_took_is_given_back_if_its_answer_was_lost(tmp_path):
    stage = Stage(f"sqlite:///{tmp_path}/jobs.db")
    stage.takes = 0.001
    stage.troubled = lambda: None
    stage.handler("t")
    ids = stage.queue.put_many(stage.queue.job("t") for _ in range(1_200))
    apply, lost = stage.store.apply, []

    def losing(commands):
        outcomes = apply(commands)
        if not lost and any(isinstance(command, Claim) and command.limit for command in commands):
            lost.extend(job.id for outcome in outcomes if isinstance(outcome, Claimed) for job in outcome.jobs)
            raise StoreAway("the answer was lost")
        return outcomes

    stage.store.apply = losing
    with stage.queue:
        worker = SimulatedWorker(stage, ["t"])
        while not lost or {*lost} - {job.id for job in stage.begun}:
            stage.pass_time(5, worker, step=5)
            assert stage.clock.wall() - NOW < 50_000  # long before their leases are over
        assert all(job.attempt == 1 for job in stage.begun)
    assert {*lost} <= {*ids}


def test_what_is_put_before_what_was_seen_is_claimed_at_once(stage):
    stage.handler("t")
    worker = SimulatedWorker(stage, ["t"])
    stage.queue.put("t")
    stage.work([worker], 5)
    stage.clock.advance(timedelta(seconds=10))
    stage.queue.put("t")
    stage.work([worker], 1)  # that looked at all that was due
    stage.queue.put("t", at=datetime.fromtimestamp(stage.clock.wall() / 1000 - 8, UTC))
    stage.work([worker], 2)
    assert stage.queue.topics.counts()["t"].done == 3


def test_a_handler_has_its_whole_ttr_also_when_the_answer_to_its_claim_was_long_under_way(stage, monkeypatch):
    stage.queue.handler("t", ttr=1, retry=Fixed(0, attempts=9))(print)
    id = stage.queue.put("t")
    apply, stage.takes = stage.store.apply, 0.95

    def slow(commands):
        found = apply(commands)
        if any(isinstance(outcome, Claimed) and outcome.jobs for outcome in found):
            stage.clock.advance(timedelta(milliseconds=450))
        return found

    monkeypatch.setattr(stage.store, "apply", slow)
    stage.play("t", steps=30)
    assert [(row.attempt, row.outcome) for row in stage.queue.jobs.history(id)] == [(1, Outcome.DONE)]


def slow_claims(stage, monkeypatch, ms, meanwhile=lambda: None):
    """Let the store's answer to each claim of jobs take so long; `meanwhile` is called once it is stored."""
    apply = stage.store.apply

    def slow(commands):
        found = apply(commands)
        if any(isinstance(outcome, Claimed) and outcome.jobs for outcome in found):
            meanwhile()
            stage.clock.advance(timedelta(milliseconds=ms))
        return found

    monkeypatch.setattr(stage.store, "apply", slow)


@pytest.mark.parametrize("ms", [2_800, 9_000])
def test_jobs_run_however_long_the_answers_to_their_claims_take(stage, monkeypatch, ms):
    stage.handler("t")
    stage.queue.put_many(stage.queue.job("t") for _ in range(7))
    slow_claims(stage, monkeypatch, ms)
    stage.play("t", steps=30)
    assert len(stage.begun) == 7
    assert {job.attempt for job in stage.begun} == {1}


def test_a_job_does_not_start_after_a_slow_answer_if_its_topic_was_paused_meanwhile(stage, monkeypatch):
    stage.handler("t")
    stage.queue.put("t")
    pause, apply = [Pause("t", paused=True)], stage.store.apply
    slow_claims(stage, monkeypatch, 2_800, meanwhile=lambda: apply(pause))
    stage.play("t", steps=30)
    assert stage.begun == []
    assert stage.store.quiet("t", 0)


def test_a_pause_that_comes_as_a_worker_starts_jobs_after_a_slow_answer_waits_for_it(stage, monkeypatch):
    """Though it was silent before for so long that a pause would not have waited for it."""
    stage.handler("t")
    stage.queue.put("t")
    ask, over = stage.store.ask, []
    slow_claims(stage, monkeypatch, 9_000)

    def paused_after(query):
        found = ask(query)
        if isinstance(query, ListTopics) and stage.clock.wall() >= NOW + 9_000 and not over:
            stage.store.apply([Pause("t", paused=True)])
            over.append(stage.store.quiet("t", 0))
        return found

    monkeypatch.setattr(stage.store, "ask", paused_after)
    stage.play("t", steps=30)
    assert (len(stage.begun), over) == (1, [False])
    assert stage.store.quiet("t", 0)


@pytest.mark.parametrize(("ms", "starts"), [(2_400, True), (2_500, False)])
def test_a_job_starts_no_later_than_a_pause_may_return_that_came_after_a_slow_answer(stage, monkeypatch, ms, starts):
    stage.handler("t")
    stage.queue.put("t")
    slow_claims(stage, monkeypatch, 2_800)
    worker = SimulatedWorker(stage, ["t"])
    when_asked(monkeypatch, stage.store, ListTopics, lambda _: stage.clock.advance(timedelta(milliseconds=ms)))
    worker.dispatcher.announce()
    worker.dispatcher.step()
    assert bool(stage.begun) is starts


def test_no_lease_is_lost_while_an_end_is_on_its_way_though_some_steps_are_slow(stage, monkeypatch):
    stage.queue.handler("t", concurrency=3, retry=Fixed(0, attempts=9))(print)
    ids = stage.queue.put_many(stage.queue.job("t") for _ in range(400))
    apply, long = stage.store.apply, cycle((0, 0, 1_200))
    stage.takes = 0.0

    def slow(commands):
        if any(isinstance(command, Ack) for command in commands):
            stage.clock.advance(timedelta(milliseconds=next(long)))
        return apply(commands)

    monkeypatch.setattr(stage.store, "apply", slow)
    stage.play("t", steps=400)
    outcomes = {row.outcome for id in ids for row in stage.queue.jobs.history(id)}
    assert Outcome.DONE in outcomes
    assert Outcome.LOST not in outcomes


def test_a_slow_step_gives_the_claims_of_the_next_ones_more_time_but_neither_for_long_nor_for_ever():
    sizer = BatchSizer(1)
    sizer.took(3_600.0, 4_999.0)
    assert sizer.slowest(4_999.0) == 0
    sizer.took(9.0, 5_000.0)
    assert sizer.slowest(5_000.0) == 5
    sizer.took(0.01, 5_002.0)
    assert sizer.slowest(5_002.0) == 2.5
    assert sizer.slowest(5_014.0) == 0
    assert (hold_of(0), hold_of(0.5), hold_of(5)) == (1_000, 2_500, 4_000)


@pytest.mark.parametrize(("worked", "more"), [(0.01, True), (0.1, False)])
def test_a_pool_that_works_off_its_jobs_quickly_may_hold_more_however_long_it_took_to_store_the_ends(
    monkeypatch, worked, more
):
    with JobQueue("memory:") as queue:
        queue.handler("t", concurrency=8)(print)
        topic = Worker(queue).dispatcher.topics["t"]
        queue.put_many(queue.job("t") for _ in range(8))
        [jobs] = queue.store.apply([Reserve("t", 8, ClaimPolicy(60_000, 3), "w")])
        leases = [Lease(job, topic, 100.0, True, ended=100.0 + worked) for job in jobs]
        monkeypatch.setattr(topic.pool, "feed", len)
        topic.feed(leases, 100.0)
        topic.left(leases, 100.9)
        assert (topic.room(101.0, 10**9) > 8) is more


def test_a_worker_trusts_a_lease_no_longer_than_the_store_gives_it_and_begins_it_for_longer_after_slow_steps():
    with JobQueue("memory:") as queue:
        queue.handler("t", ttr="200ms")(print)
        queue.put("t", ttr=10)
        topic = Worker(queue).dispatcher.topics["t"]
        [[job]] = queue.store.apply([Reserve("t", 1, topic.policy, "w")])
        assert Lease(job, topic, 100.0, True).until == pytest.approx(100 + 10 + topic.policy.slack / 1000)
        lease, leases = Lease(job, topic, 100.0, False, started=100.0), Leases()
        leases.add([lease], 100.0)
        assert leases.due(100.2, 2.0) == [lease]
        assert leases.command(lease).ttr == 10_000 + 500 + 4_000


def test_a_handler_that_has_ended_renews_its_lease_no_more():
    """The store has its end first, and would call the lease lost."""
    with JobQueue("memory:") as queue:
        queue.handler("t", keep_lease=True)(print)
        queue.put("t")
        [[job]] = queue.store.apply([Reserve("t", 1, ClaimPolicy(60_000, 3), "w")])
        lease, leases = Lease(job, Worker(queue).dispatcher.topics["t"], 100.0, True, started=100.0), Leases()
        leases.add([lease], 100.0)
        assert leases.due(150.0, 0.0) == [lease]
        lease.ended = 150.0
        assert leases.due(150.0, 0.0) == []


def test_a_lost_lease_is_told_once_though_its_renewal_and_its_end_are_both_refused():
    """At the end: an end is what listeners wait for, such as a span."""
    told = []
    with JobQueue("memory:", listeners=[told.append]) as queue:
        queue.handler("t", keep_lease=True)(print)
        queue.put("t")
        [[job]] = queue.store.apply([Reserve("t", 1, ClaimPolicy(60_000, 3), "w")])
        dispatcher = Worker(queue).dispatcher
        lease, completer = Lease(job, dispatcher.topics["t"], 100.0, True, started=100.0), dispatcher._completer
        completer.leases.add([lease], 100.0)
        completer.renewed(lease, False, 150.0)
        completer.done(lease)
        assert completer.commands(160.0, 10) == [Ack(job.id, job.claims)]
        completer.learn(iter([False]))
    assert told.count(LeaseLost(job)) == 1


# ---- many are due one shortly after the other: none is late ----------------------------------------------------------


@pytest.mark.parametrize("when", ["before the worker begins", "while it works"])
@pytest.mark.parametrize("crowd", often([(8, "t"), (1, "tu")]))  # ms from each to the next, and topics
def test_of_many_jobs_that_are_due_close_together_none_is_late(when, crowd):
    apart, topics = crowd
    world = CalmWorld()
    for topic in topics:
        world.queue.handler(topic, concurrency=100)(print)
    jobs = [world.queue.job("t", delay=(6_000 + n) / 1000) for n in range(0, 12_000, apart)]
    if when == "while it works":
        worker = SimulatedWorker(world, topics)
        worker.turn()
    for start in range(0, len(jobs), 50):
        world.queue.put_many(jobs[start : start + 50])
        if when == "while it works":
            world.pass_time(10, worker)
    if when != "while it works":
        worker = SimulatedWorker(world, topics)
    while len(world.late) < len(jobs):
        world.pass_time(10, worker)
        assert max(world.late, default=0) <= 50
    world.queue.close()


# ---- what a worker learned in a step that failed: the next step makes up for it --------------------------------------


class World(CalmWorld):
    """A world whose store fails once at a kind of query."""

    def __init__(self):
        super().__init__()
        self.queue.handler("t", concurrency=1)(print)
        self.troubles = 0

    def troubled(self):
        self.troubles += 1

    def fail_once(self, monkeypatch, kind):
        def fail(_):
            if not self.troubles:
                raise StoreAway("it is away")

        when_asked(monkeypatch, self.store, kind, fail)


@pytest.fixture
def world():
    found = World()
    with found.queue:
        yield found


def test_a_worker_owns_all_slices_once_the_other_one_has_left_though_that_step_failed(world, monkeypatch):
    other = world.store.notifier("other")
    world.store.apply([Announce(other.worker, ("t",))])
    worker = SimulatedWorker(world, ["t"])
    worker.turn()
    world.fail_once(monkeypatch, GetNextLease)
    other.close()
    world.pass_time(3_000, worker)
    assert world.troubles == 1
    world.queue.put_many(world.queue.job("t", delay=timedelta(milliseconds=n * SLICE + 1)) for n in range(2 * SHARDS))
    world.pass_time(2 * SHARDS * SLICE + 1_000, worker)
    assert len(world.late) == 2 * SHARDS
    assert max(world.late) <= 10


def test_a_pause_that_was_heard_in_a_step_that_failed_takes_effect_in_the_next_one(world, monkeypatch):
    world.takes = 60.0
    worker = SimulatedWorker(world, ["t"])
    worker.turn()
    world.queue.put_many(world.queue.job("t") for _ in range(2))
    worker.turn()
    world.fail_once(monkeypatch, ListTopics)
    world.store.apply([Pause("t", paused=True)])
    world.pass_time(3_000, worker)
    assert world.troubles == 1
    assert world.store.quiet("t", 0)


def test_a_horizon_that_the_store_did_not_take_is_published_in_the_next_step(world, monkeypatch):
    worker = SimulatedWorker(world, ["t"])
    worker.turn()
    world.pass_time(10_000, worker, step=1_000)
    publish, seen = worker.notifier.publish, []

    def fail_once(horizon):
        if not world.troubles:
            raise StoreAway("it is away")
        seen.append(horizon)
        publish(horizon)

    monkeypatch.setattr(worker.notifier, "publish", fail_once)
    while not world.troubles:
        world.pass_time(1_000, worker, step=1_000)
    world.pass_time(1_000, worker, step=1_000)
    assert [horizon > world.clock.wall() + 15_000 for horizon in seen] == [True]
