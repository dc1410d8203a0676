"""Faults of the service: rights, idempotency and answers."""

from pywheel.server import access, tokens
from pywheel.server.api import claims, jobs, once, records
from pywheel.server.tokens import Grant
from tests.planted.how import found_by, function, method

R = "server/test_"


@found_by(
    R + "access.py::test_a_token_may_do_what_its_scope_says",
    'assert (answer.status_code, problem(answer)) == (403, "scope-missing")',
)
def a_token_has_every_scope():
    def any_scope(real, self, scope, topic=None):
        return real(self._replace(scopes=frozenset(["admin"])), scope, topic)

    method(Grant, "may", any_scope)


@found_by(R + "access.py::test_a_token_of_other_topics_may_not", 'assert "mail" not in answer.text')
def a_token_has_every_topic():
    method(Grant, "may", lambda real, self, scope, topic=None: real(self, scope))


@found_by(
    R + "access.py::test_of_a_batch_every_topic_must_be_allowed",
    'assert problem(api("POST", "/v1/jobs/batch", json={"jobs": jobs})) == "scope-missing"',
)
def a_batch_is_allowed_by_its_first_topic():
    seen = []

    def first(real, self, scope, topic=None):
        seen.append(topic)
        return real(self, scope, None if len(seen) > 1 else topic)

    method(Grant, "may", first)


@found_by(
    R + "tokens.py::test_a_token_is_over_at_its_end_also_if_it_was_just_read", "assert tokens.grant(secret) is None"
)
def a_token_has_no_end():
    def endless(real, id, value):
        token, digest = real(id, value)
        return token._replace(until=None), digest

    function(tokens._read, endless)


@found_by(
    R + "tokens.py::test_a_wrong_secret_with_a_right_id_grants_nothing",
    "assert [tokens.grant(one) for one in wrong] == [None, None]",
)
def any_secret_grants_what_its_id_does():
    function(tokens.compare_digest, lambda real, one, other: True)


@found_by(R + "tokens.py::test_the_secret_is_nowhere_in_the_file", "assert random not in kept")
def a_secret_is_kept_as_it_is():
    function(tokens._digest, lambda real, secret: secret)


@found_by(
    R + "access.py::test_many_wrong_tokens_are_slowed_down_and_those_that_work_are_not",
    'assert {problem(answer) for answer in answers} == {"token-unknown", "too-many-failures"}',
)
def wrong_tokens_are_not_counted():
    method(access.Failures, "count", lambda real, self, address: None)


@found_by(
    R + "access.py::test_an_open_server_answers_to_no_other_name",
    'assert problem(api("GET", "/v1/topics", headers={"host": host})) == "bad-host"',
)
def an_open_server_answers_to_every_name():
    function(access.refuse_strangers, lambda real, headers: None)


@found_by(
    R + "once.py::test_each_token_has_keys_of_its_own",
    'assert api("POST", f"/v1/jobs/{id}/cancel", headers=KEY).status_code == 204',
)
def tokens_share_their_idempotency_keys():
    def shared(real, call, key):
        return once.sha256(key).hexdigest(), real(call, key)[1]

    function(once.identity, shared)


@found_by(
    R + "once.py::test_a_key_belongs_to_one_body_one_job_and_one_operation",
    'assert (answer.status_code, problem(answer)) == (422, "key-reused")',
)
def an_idempotency_key_serves_another_body():
    function(once.identity, lambda real, call, key: (real(call, key)[0], "the same"))


@found_by(
    R + "once.py::test_an_ack_that_is_repeated_is_answered_as_the_first_time",
    "assert [answer.status_code for answer in answers] == [204, 204]",
)
def an_idempotency_key_is_not_looked_at():
    async def anew(real, call, key):
        return await call.operation.handler(call)

    function(once.once, anew)


@found_by(
    R + "claims.py::test_a_receipt_cannot_be_made_up",
    'assert problem(api("POST", f"/v1/claims/{text}/ack")) == "not-found"',
)
def a_receipt_needs_no_seal():
    def unsealed(real, key, receipt):
        try:
            return real(key, receipt)
        except Exception:
            text = records.base64.urlsafe_b64decode(receipt + "==").decode()
            id, number = text.split(".")[:2]
            return int(id), int(number)

    function(records.receipt_of, unsealed)


@found_by(
    R + "claims.py::test_a_claim_that_is_over_cannot_be_settled",
    'assert (answer.status_code, problem(answer)) == (409, "claim-lost")',
)
def a_claim_that_is_over_is_settled():
    function(claims._held, lambda real, held: real(True))


@found_by(
    R + "claims.py::test_a_client_that_is_gone_when_a_job_is_claimed_for_it_holds_nothing",
    'assert (job.state, job.claims, job.attempt) == ("delayed", claimed, 0)',
)
def a_client_that_is_gone_keeps_its_job():
    async def kept(real, context, jobs):
        return None

    function(claims._give_back, kept)


@found_by(
    R + "jobs.py::test_a_job_that_has_changed_since_is_left_alone",
    'assert (answer.status_code, problem(answer)) == (412, "changed")',
)
def a_job_that_has_changed_since_is_changed():
    function(jobs._expected, lambda real, call: None)


@found_by(
    R + "access.py::test_a_token_of_other_topics_may_not", "assert answer.status_code in (403, 404, 409), answer.text"
)
def a_change_of_a_job_asks_for_no_topic():
    async def any_job(real, call, ref):
        return None

    function(jobs._job, any_job)
