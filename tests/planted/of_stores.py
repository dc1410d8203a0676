"""Faults of stores, of the commands that they apply: around those in memory and in a file."""

from dataclasses import replace

from pywheel import JobExists
from pywheel.jobs import State
from pywheel.jobs import commands as ops
from pywheel.jobs.commands import Change
from pywheel.jobs.queries import GetJob, ListJobs
from pywheel.stores.group_commit import GroupCommit
from pywheel.stores.sql.engine import SqlStore
from pywheel.stores.sqlite.presence import Audience, Telling
from tests.planted.how import command, found_by, method

S = "stores/test_contract.py::TestMemory::test_"
N = "stores/test_sqlite_notifier.py::test_"


def puts(**fields):
    """Have each job that is put take other values: `field=function of the job`."""

    def other(put):
        jobs = [job._replace(**{name: value(job) for name, value in fields.items()}) for job in put.jobs]
        return replace(put, jobs=tuple(jobs))

    command(ops.Put, other)


def policies(**fields):
    """Have each claim follow another policy: `field=function of the policy`."""

    def other(claim):
        policy = claim.policy
        return replace(claim, policy=policy._replace(**{name: value(policy) for name, value in fields.items()}))

    command(ops.Claim | ops.Reserve, other)


def limits(other):
    """Have each claim with limits keep to `other(limits)`."""
    policies(limits=lambda policy: policy.limits and other(policy.limits))


# ---- puts -----------------------------------------------------------------------------------------------------------


@found_by(S + "a_delay_counts_from_the_stores_clock", "assert self.job(self.put(due=FAR, delay=50)).due == NOW + 57")
def a_job_is_a_millisecond_early():
    puts(delay=lambda job: job.delay and job.delay - 1)


@found_by(
    S + "a_put_that_is_sent_again_changes_nothing_and_has_the_ids_of_then",
    'assert self.apply(Put((JOB, KEYED), "n")) == ids',
)
def a_put_that_is_sent_again_after_its_commit_makes_a_second_job():
    command(ops.Put, lambda put: replace(put, nonce=None))


@found_by(
    S + "a_put_with_another_mark_is_refused_its_nonce",
    'self.refused(Put((JOB,), nonce, "2"), NonceTaken)',
)
def a_nonce_serves_another_put():
    command(ops.Put, lambda put: replace(put, fingerprint=None))


@found_by(
    S + "replace_takes_the_new_values_and_keeps_id_and_age",
    "assert self.job(id) == new",
)
def a_replacement_leaves_the_old_body():
    bodies = {}

    def old(job):
        found = bodies.get((job.topic, job.key), job.body) if job.replace else job.body
        bodies[job.topic, job.key] = found
        return found

    puts(body=old)


@found_by(S + "a_key_belongs_to_its_topic", 'assert self.put("a", key="k") != self.put("b", key="k")')
def a_key_belongs_to_all_topics():
    taken = set()

    def told(store, put, outcome):
        keys = {job.key for job in put.jobs if job.key and not job.replace}
        if isinstance(outcome, list) and keys & taken:
            store.apply([ops.Delete(id) for id in outcome])
            return JobExists("taken")
        taken.update(keys)
        return outcome

    command(ops.Put, told=told)


@found_by(S + "a_key_stays_taken_for_so_long_after_its_job_was_done", "assert self.taken_by() == job.id")
def a_finished_job_frees_its_key_at_once():
    puts(dedupe_for=lambda job: None)


@found_by(S + "a_running_job_may_hand_its_key_to_a_successor", "id = self.successor(parent)")
def a_successor_is_not_known_by_its_parent():
    puts(parent=lambda job: None)


@found_by(S + "two_jobs_of_one_put_cannot_share_a_key", 'assert self.ask(GetJob(("t", "k"))) is None')
def a_refused_put_leaves_its_first_job():
    def told(store, put, outcome):
        if isinstance(outcome, JobExists) and len(put.jobs) > 1:
            store.apply([replace(put, jobs=put.jobs[:1], nonce=None)])
        return outcome

    command(ops.Put, told=told)


@found_by(
    S + "what_is_due_comes_by_priority_then_by_due_time_then_by_id",
    "assert [job.id for job in claimed.jobs] == expected",
)
def a_priority_is_lost():
    puts(priority=lambda job: 0)


@found_by(S + "ids_grow_in_the_order_of_puts", "assert ids + many == sorted({*ids, *many})")
def a_put_tells_the_ids_of_its_jobs_backwards():
    command(ops.Put, told=lambda store, put, outcome: outcome[::-1] if isinstance(outcome, list) else outcome)


@found_by(S + "an_imported_job_has_all_it_had_but_its_id", "assert self.history(id) == list(one.history)")
def an_imported_job_forgets_its_history():
    def shorter(one):
        return replace(one, jobs=tuple(job._replace(history=job.history[-1:]) for job in one.jobs))

    command(ops.Import, shorter)


# ---- claims ---------------------------------------------------------------------------------------------------------


@found_by(S + "of_many_threads_one_gets_each_job", "assert sorted(won) == ids")
def a_claim_is_given_twice():
    given = []

    def told(store, claim, outcome):
        again = given[-1:] if outcome else []
        given.extend(outcome)
        return [*outcome, *again]

    command(ops.Reserve, told=told)


@found_by(S + "jobs_claimed_together_keep_what_is_their_own", "assert job == self.job(job.id)")
def a_claim_has_the_body_of_another_job():
    def told(store, claim, outcome):
        bodies = [job.body for job in (*outcome.jobs[1:], *outcome.jobs[:1])]
        return outcome._replace(jobs=[job._replace(body=body) for job, body in zip(outcome.jobs, bodies, strict=True)])

    command(ops.Claim, told=told)


@found_by(
    S + "a_reserved_job_has_begun_and_has_its_lease",
    "assert (job.id, job.state, job.attempt, job.claims, job.lease_until) == (id, State.RUNNING, 1, 1, NOW + 1_030)",
)
def a_lease_is_a_second_short():
    policies(ttr=lambda policy: policy.ttr - 1_000)


@found_by(S + "the_jobs_own_ttr_and_max_attempts_come_first", "assert job.lease_until == NOW + 57")
def a_job_has_the_ttr_of_whoever_claims_it():
    puts(ttr=lambda job: None)


@found_by(S + "a_held_claim_that_is_lost_has_spent_nothing", "assert self.held(id, policy=BACKOFF).attempt == 1")
def a_claim_that_is_held_has_begun():
    command(ops.Claim, lambda claim: replace(claim, begin=10**6))


@found_by(
    S + "the_first_begin_at_once_and_the_others_are_held",
    "assert [job.lease_until for job in claimed.jobs] == [NOW + 95, NOW + 1_005, NOW + 200, NOW + 200]",
)
def one_more_begins_than_has_room():
    command(ops.Claim, lambda claim: replace(claim, begin=claim.begin + 1))


@found_by(
    S + "of_those_that_were_lost_running_so_many_are_claimed_as_asked",
    "assert [job.id for job in claimed.jobs] == [fresh, ids[0]]",
)
def one_more_suspect_is_claimed():
    command(ops.Claim, lambda claim: replace(claim, suspects=claim.suspects + 1))


@found_by(
    S + "a_reserve_takes_no_more_than_asked", "assert [len(self.reserve(limit=2)) for _ in range(4)] == [2, 2, 1, 0]"
)
def a_reserve_takes_one_more():
    command(ops.Reserve, lambda claim: replace(claim, limit=claim.limit + 1))


@found_by(S + "no_more_than_the_limit_run", "assert [job.id for job in claimed.jobs] == ids[:2]")
def a_limit_is_passed_by_one_job():
    limits(lambda one: one._replace(most=one.most and one.most + 1))


@found_by(
    S + "a_rate_spaces_what_begins", "assert ([job.id for job in claimed.jobs], claimed.again) == (ids[:1], NOW + 100)"
)
def a_rate_is_twice_as_fast():
    limits(lambda one: one._replace(every=one.every // 2))


@found_by(
    S + "a_limit_by_key_counts_each_group",
    'assert [job.key for job in claimed.jobs] == ["a:1", "b:1", "c", None, None]',
)
def a_limit_by_key_counts_all_groups_together():
    limits(lambda one: one._replace(per=None))


@found_by(S + "the_backoff_goes_by_the_attempt", "assert waits == [3, 5, 7, 7]")
def a_lost_lease_waits_as_after_the_first():
    policies(backoff=lambda policy: policy.backoff[:1])


@found_by(S + "lost_leases_spend_attempts", "assert self.state(id) is State.DEAD")
def a_job_has_an_attempt_too_many():
    policies(max_attempts=lambda policy: policy.max_attempts + 1)


@found_by(S + "a_paused_topic_gives_nothing_until_it_is_resumed", 'assert self.apply(Pause("t", paused=True)) is False')
def a_pause_says_so_and_does_nothing():
    command(ops.Pause, lambda pause: None, lambda store, pause, outcome: True)


# ---- ends -----------------------------------------------------------------------------------------------------------


@found_by(S + "an_ack_makes_it_done_once", "assert self.apply(c.Ack(job.id, job.claims)) is False")
def an_ack_is_dropped():
    command(ops.Ack, lambda ack: None, lambda store, ack, outcome: True)


@found_by(S + "a_settlement_after_the_lease_is_refused", "assert self.apply(c.Ack(id, 1)) is False")
def an_ack_after_the_lease_says_true():
    command(ops.Ack, told=lambda store, ack, outcome: True)


@found_by(S + "a_receipt_of_another_claim_is_refused", "assert self.apply(c.Ack(*receipt)) is False")
def an_ack_needs_no_receipt():
    seen = {}
    command(ops.Reserve, told=lambda store, claim, jobs: seen.update((job.id, job.claims) for job in jobs) or jobs)
    command(ops.Ack, lambda ack: replace(ack, claims=seen.get(ack.id, ack.claims)))


@found_by(S + "a_result_stands_with_the_attempt_that_made_the_job_done", "assert self.history(first.id) == [")
def a_result_is_lost():
    command(ops.Ack, lambda ack: replace(ack, result=None))


@found_by(
    S + "a_nack_delays_and_the_next_attempt_counts",
    'assert (again.state, again.due, again.attempt, again.last_error) == (State.DELAYED, NOW + 73, 1, "boom")',
)
def a_nack_forgets_its_delay():
    command(ops.Nack, lambda nack: replace(nack, delay=nack.delay and 0))


@found_by(
    S + "a_nack_without_delay_makes_it_dead_at_once",
    'assert self.apply(c.Nack(job.id, job.claims, None, "no use")) is State.DEAD',
)
def a_nack_without_a_delay_is_one_with_none():
    command(ops.Nack, lambda nack: replace(nack, delay=nack.delay or 0))


@found_by(
    S + "a_nack_delays_and_the_next_attempt_counts",
    'assert (again.state, again.due, again.attempt, again.last_error) == (State.DELAYED, NOW + 73, 1, "boom")',
)
def an_error_is_lost():
    command(ops.Nack, lambda nack: replace(nack, error=None))


@found_by(
    S + "a_release_spends_no_attempt_and_its_receipt_is_void",
    "assert (back.state, back.due, back.attempt, back.claims, back.lost) == (State.DELAYED, NOW - 3, 0, 1, 0)",
)
def a_release_spends_an_attempt():
    def nack(release):
        return ops.Nack(release.id, release.claims, 0)

    command(ops.Release, nack, lambda store, release, state: state is not None)


@found_by(S + "a_touch_moves_the_end_of_the_lease", "assert self.job(job.id).lease_until == NOW + 5_999")
def a_touch_says_so_and_does_nothing():
    command(ops.Touch, lambda touch: None, lambda store, touch, outcome: True)


@found_by(S + "a_begin_counts_the_attempt_and_leases_for_the_ttr", "assert self.job(id).lease_until == NOW + 899")
def a_begin_says_so_and_does_nothing():
    command(ops.Begin, lambda begin: None, lambda store, begin, outcome: True)


@found_by(
    S + "expire_ends_no_more_than_asked", "assert [self.apply(c.Expire(2)).ended for _ in range(4)] == [2, 2, 1, 0]"
)
def an_expiry_ends_all():
    command(ops.Expire, lambda expire: ops.Expire(10**6))


# ---- one job --------------------------------------------------------------------------------------------------------


@found_by(
    S + "a_change_that_is_not_made_says_what_stood_in_the_way",
    "assert self.apply(Cancel(ref)) is self.apply(Edit(ref, FAR)) is Change(state)",
)
def a_cancel_after_the_claim_says_true():
    command(ops.Cancel, told=lambda store, cancel, change: Change.MADE if change is Change.RUNNING else change)


@found_by(S + "a_cancelled_job_is_never_delivered", "assert self.apply(Cancel(id)) is Change.CANCELLED")
def a_cancel_says_so_and_does_nothing():
    def told(store, cancel, outcome):
        job = store.ask(GetJob(cancel.ref))
        return Change.MADE if job and job.state is State.DELAYED else Change.NOT_FOUND

    command(ops.Cancel, lambda cancel: None, told)


@found_by(
    S + "a_job_that_is_as_expected_is_cancelled", "assert self.apply(Cancel(id, expect=(FAR, 1))) is Change.CHANGED"
)
def a_cancel_takes_a_job_that_has_changed():
    command(ops.Cancel, lambda cancel: replace(cancel, expect=None))


@found_by(
    S + "a_reschedule_moves_it_either_way_and_keeps_its_age",
    "assert (self.job(id).due, self.job(id).created) == (NOW, NOW)",
)
def a_job_that_is_moved_is_due_a_millisecond_late():
    def later(edit):
        return edit if edit.due is None else replace(edit, due=edit.due + 1)

    command(ops.Edit, later)


@found_by(S + "of_two_who_have_seen_a_job_the_second_edit_is_refused", "is Change.CHANGED")
def an_edit_takes_a_job_that_has_changed():
    command(ops.Edit, lambda edit: replace(edit, expect=None))


@found_by(S + "a_deleted_job_is_forgotten_with_its_history", "assert not self.apply(Delete(ref))")
def a_delete_cancels():
    command(ops.Delete, lambda delete: ops.Cancel(delete.ref), lambda store, delete, outcome: Change.MADE)


@found_by(S + "a_purge_forgets_what_ended_long_enough_ago", "assert self.apply(Purge(State.DONE, 101, None, 10)) == 0")
def a_purge_takes_what_is_too_young():
    command(ops.Purge, lambda purge: replace(purge, age=0))


@found_by(S + "a_job_with_another_body_is_left_as_it_is", 'assert self.apply(Rewrite(id, other, b"new")) is False')
def a_rewrite_does_not_look():
    command(ops.Rewrite, told=lambda store, rewrite, outcome: True)


@found_by(S + "a_note_that_must_be_absent_changes_nothing_else", 'assert self.keep("n", None, absent=True) == b"1"')
def a_note_that_must_be_absent_replaces():
    command(ops.SetNote, lambda note: replace(note, absent=False))


@found_by(S + "a_note_is_over_at_the_end_of_its_ttl", 'assert self.ask(GetNote("n")) is None')
def a_note_lives_for_ever():
    command(ops.SetNote, lambda note: replace(note, ttl=None))


@found_by(S + "lists_go_by_id_in_pages", "assert self.listed(after=ids[1]) == ids[2:]")
def a_page_leaves_out_the_job_after_its_cursor():
    def further(real, self, query):
        if isinstance(query, ListJobs) and query.after:
            query = replace(query, after=query.after + 1)
        return real(self, query)

    method(SqlStore, "ask", further)


# ---- who is told, and who shares a commit ---------------------------------------------------------------------------


@found_by(N + "only_the_owner_is_rung_and_gets_the_hint", "assert ids(worker.hints()) == mine")
def a_put_rings_nobody():
    method(Telling, "tell", lambda real, self: None)


@found_by(N + "a_put_whose_writer_died_before_it_rang_is_found_by_the_next_looks", "assert worker.wait(0) is True")
def a_commit_is_not_marked_as_untold():
    method(Telling, "begin", lambda real, self: None)


@found_by(
    N + "a_silent_worker_owns_nothing_until_it_speaks_again",
    "assert [ids(worker.hints()) for worker in (a, b)] == by_owner(put, [a, b])",
)
def who_owned_a_topic_owns_it_for_ever():
    method(Audience, "holds", lambda real, self, page, now: page is self.page)


@found_by("stores/test_group_commit.py::test_many_threads_all_get_their_own_outcome", "assert wrong == []")
def a_caller_gets_the_outcome_of_the_one_before():
    last = []

    def other(real, self, commands):
        last.append(real(self, commands))
        return last[-2] if len(last) > 1 else last[-1]

    method(GroupCommit, "apply", other)


@found_by(
    "stores/test_group_commit.py::test_what_one_caller_gets_wrong_fails_for_that_caller_alone",
    'assert results == {name: [f"done {name}"] for name in "abd"}',
)
def what_one_caller_gets_wrong_fails_for_all():
    def never(real, self, transact, separate, *args):
        real(self, transact, lambda error: False, *args)

    method(GroupCommit, "__init__", never)
