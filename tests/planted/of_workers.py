"""Faults of workers and producers: retries, schedules, tasks, spools, keys of bodies."""

from dataclasses import replace

from pywheel.client.spool import Spool
from pywheel.execution.execute import Execution
from pywheel.jobs import commands as ops
from pywheel.jobs import handler, keyring
from pywheel.jobs.middleware import Middleware
from pywheel.jobs.retry import RetryPolicy
from pywheel.jobs.schedule import Schedule
from pywheel.tasks.arguments import Arguments
from pywheel.tasks.key import TaskKey
from pywheel.tasks.providers import Provider
from pywheel.tasks.task import AnyTask
from pywheel.worker.chores import Pruning
from pywheel.worker.dispatcher import Dispatcher
from pywheel.worker.executors.pool import Pool
from tests.planted.how import found_by, function, method

W = "worker/test_"
J = "jobs/test_"
C = "client/test_"


# ---- workers --------------------------------------------------------------------------------------------------------


@found_by(
    W + "worker.py::test_a_failing_job_climbs_its_ladder_and_dies_with_its_last_error",
    'assert (job.state, job.last_error) == (State.DEAD, "ValueError: attempt 3")',
)
def an_attempt_that_failed_is_acked():
    def acked(real, handler, job, error, result=None):
        return real(handler, job, None, result)

    function(handler.ending, acked)


@found_by(W + "worker.py::test_functions_run_as_many_at_once_as_asked_and_no_more", "assert max(most) == 3")
def one_more_runs_than_its_handler_allows():
    def wider(real, self, handler, *args):
        real(self, replace(handler, concurrency=handler.concurrency + 1), *args)

    method(Pool, "__init__", wider)


@found_by(
    W + "pace.py::test_a_drain_gives_back_at_once_what_waits_in_a_pool",
    "assert {(job.state, job.attempt) for job in map(world.queue.get, waiting)} == {(State.DELAYED, 0)}",
)
def a_drain_starts_what_waits():
    def drain(real, self):
        self.draining = True

    method(Dispatcher, "drain", drain)


@found_by(
    W + "pruning.py::test_a_worker_that_is_told_nothing_forgets_after_a_day_and_a_month", "assert left(queue) == {dead}"
)
def nothing_is_pruned():
    method(Pruning, "work", lambda real, self, now, **kwargs: None)


@found_by(
    W + "worker.py::test_a_job_that_is_not_for_now_comes_again_with_all_its_attempts",
    "assert (job.state, job.attempt, seen[id]) == (State.DONE, 1, REFUSED + 1)",
)
def what_is_not_for_now_spends_an_attempt():
    function(handler.verdict, lambda real, error: real(error)._replace(spent=True))


@found_by(J + "handler.py::test_an_error_is_kept_in_characters_that_every_store_has", "assert len(text) == 4_000")
def an_error_is_kept_as_it_is():
    function(handler.kept, lambda real, text: text)


@found_by(
    C + "results.py::test_what_a_handler_returns_is_kept_if_it_is_asked_for",
    "assert queue.result(ids[name]).json() == values[name]",
)
def a_result_is_not_kept():
    method(Execution, "__init__", lambda real, self, *args, keep=None, **kwargs: real(self, *args, **kwargs))


# ---- around handlers ------------------------------------------------------------------------------------------------


@found_by(
    C + "middleware.py::test_they_stand_around_a_handler_in_order",
    'assert seen == ["before a", "before b", "handle", "after b", "after a"]',
)
def middleware_leaves_in_the_order_of_entering():
    def leave(real, self, job, error):
        self.after.reverse()
        real(self, job, error)
        self.after.reverse()

    method(Middleware, "_leave", leave)


@found_by(C + "middleware.py::test_on_dead_gets_the_job_as_it_is_then", "assert seen == [job]")
def on_dead_gets_the_job_as_it_was():
    def before(real, self, job, error, finish):
        for one in self.dead:
            finish(one(job))

    method(Middleware, "call_dead", before)


# ---- retries and schedules ------------------------------------------------------------------------------------------


@found_by(
    J + "retry.py::test_a_ladder_goes_up_step_by_step_and_stays_on_the_last",
    "assert [ladder.delay(attempt) for attempt in range(1, 6)] == [5_000, 30_000, 60_000, 60_000, 60_000]",
)
def a_ladder_begins_at_its_second_step():
    method(RetryPolicy, "delay", lambda real, self, attempt: real(self, attempt + 1))


@found_by(J + "retry.py::test_a_ladder_goes_up_step_by_step_and_stays_on_the_last", "assert ladder.max_attempts == 4")
def a_policy_tries_once_too_often():
    RetryPolicy.max_attempts = property(lambda self: len(self.delays) + 2)


@found_by(
    J + "schedule.py::test_every_comes_at_the_multiples_since_1970_and_not_before_it_was_made",
    'assert written(schedule.after(0)) == "2026-01-01T12:15:00Z"',
)
def a_schedule_leaves_out_every_second_tick():
    def sparse(real, self, time):
        tick = real(self, time)
        return real(self, tick) if tick is not None and tick // 900_000 % 2 else tick

    method(Schedule, "after", sparse)


@found_by(
    J + "schedule.py::test_of_missed_ticks_none_one_or_all_are_made_up_for",
    'assert missed("none") == missed("one") == ["12:30"]',
)
def a_schedule_makes_up_for_all_missed_ticks():
    method(Schedule, "missed", lambda real, self, after, now: real(replace(self, catch_up="all"), after, now))


# ---- tasks ----------------------------------------------------------------------------------------------------------


@found_by(
    C + "tasks.py::test_the_key_is_made_of_the_arguments_and_their_defaults",
    'assert queue.get(keyed.put(7, "x")).key == keyed.key(7) == keyed.key(order_id=7, shop="main") == "main-7"',
)
def a_key_leaves_out_an_argument():
    def fewer(real, self, arguments):
        return real(self, {**arguments, self._names[-1]: 0} if len(self._names) > 1 else arguments)

    method(TaskKey, "of_put", fewer)


@found_by(
    C + "tasks.py::test_anything_else_is_a_failed_attempt_that_names_the_argument", "assert message in job.last_error"
)
def an_argument_is_not_named():
    method(Arguments, "_refusal", lambda real, self, misfit: real(self, misfit.__class__(None, misfit.what)))


@found_by(
    C + "tasks.py::test_options_stand_before_the_arguments", "assert (job.due - now, job.max_attempts) == (due, 2)"
)
def options_of_a_put_stay_with_the_task():
    def staying(real, self, **options):
        other = real(self, **options)
        self._options = other._options
        return other

    method(AnyTask, "options", staying)


@found_by(
    C + "tasks.py::test_what_is_provided_is_given_by_its_type_or_its_name_and_closed_after_each_job",
    'assert seen == ["opened", Session, "rolled back"] * 2',
)
def what_is_provided_is_never_closed():
    class Open:
        def __init__(self, stack):
            self.enter_context = lambda manager: manager.__enter__()
            self.push = lambda leave: None
            self.callback = lambda *args: None

    method(Provider, "open", lambda real, self, job, stack: real(self, job, Open(stack)))


# ---- spools and keys ------------------------------------------------------------------------------------------------


@found_by(
    "client/spool/test_away.py::test_an_answer_that_is_lost_while_forwarding_makes_no_second_job",
    "assert bodies(store) == list(range(5))",
)
def a_put_is_forwarded_with_another_nonce():
    def another(real, self):
        batch = real(self)
        return batch and [one._replace(put=replace(one.put, nonce=f"{one.put.nonce}{id(one)}")) for one in batch]

    method(Spool, "take", another)


@found_by(
    "client/spool/test_away.py::test_what_was_put_while_it_was_away_is_forwarded_in_order_and_once",
    "assert bodies(store) == list(range(7))",
)
def a_spool_is_forwarded_backwards():
    method(Spool, "take", lambda real, self: (batch := real(self)) and batch[::-1])


@found_by(
    "client/spool/test_order.py::test_what_may_have_been_sent_is_not_said_to_be_cancelled",
    "with forwarding(queue), pytest.raises(StoreAway):",
)
def what_was_sent_from_a_spool_is_said_to_be_cancelled():
    method(Spool, "cancel", lambda real, self, id: bool(self.file.apply([ops.Cancel(-id)])[0]))


@found_by(
    J + "keyring.py::test_it_opens_for_no_other_topic_or_key",
    "def test_it_opens_for_no_other_topic_or_key(topic, key, other_topic, other_key):",
)
def a_body_opens_for_another_job():
    function(keyring._named, lambda real, topic, key: b"")


@found_by(
    J + "keyring.py::test_a_body_that_does_not_open_says_why",
    "with pytest.raises(BadBody, match=said) as caught:",
)
def a_plain_body_is_read_though_it_is_not_to_be():
    def plain(real, self, *args, plain=True, **kwargs):
        real(self, *args, **kwargs)

    method(keyring.Keyring, "__init__", plain)
