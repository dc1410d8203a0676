"""The table of all operations: their routes, checks and descriptions."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import Route

from ..context import Context
from . import claims, events, jobs, openapi, schedules, schema, topics
from .call import Endpoint, Operation


def _operation(
    tag: str, scope: str | None, id: str, route: str, handler: Any, summary: str, *, word: str = "", **more: Any
) -> Operation:
    """Return an operation; `word` tells a handler of several operations which one it is."""
    method, path = route.split()
    handler = partial(handler, word=word) if word else handler
    return Operation(id=id, method=method, path=path, handler=handler, summary=summary, tag=tag, scope=scope, **more)


def _one(
    scope: str, id: str, route: str, handler: Any, summary: str, *, by_key: Any = schema.ByKey, **more: Any
) -> tuple[Operation, ...]:
    """Return an operation on one job twice: by its id, and by its key."""
    operation = partial(_operation, "one job", scope)
    return (
        operation(id, route.format("{id}"), handler, summary, **more),
        operation(
            f"{id}ByKey", route.format("by-key"), handler, f"{summary}, named by its key", **more | {"query": by_key}
        ),
    )


_putting, _finding = partial(_operation, "put", "put"), partial(_operation, "many jobs", "read")
_changing = partial(
    _operation, "many jobs", "admin", answers={200: schema.BulkAnswer}, problems=("bad-body",),
    notes="In batches, each of them one transaction. With `dry_run` nothing changes.",
    example={"topic": "mail", "error": "502", "dry_run": True},
)  # fmt: skip
_topics = partial(_operation, "topics", "read")
_pausing = partial(_operation, "topics", "admin", answers={200: schema.Changed})
_ordering = partial(_operation, "workers", "admin", answers={204: None}, problems=("not-found",))
_schedule = partial(_operation, "schedules", problems=("no-such-schedule",))
_claim = partial(
    _operation, "work", "work", body_needed=False, answers={204: None}, problems=("claim-lost", "not-found")
)
_CHANGED: Final[dict[str, Any]] = {
    "headers": ("If-Match",), "answers": {204: None}, "problems": ("no-such-job", "wrong-state", "changed")
}  # fmt: skip

OPERATIONS: Final[tuple[Operation, ...]] = (
    _putting("putJob", "POST /v1/jobs", jobs.put, "Put a job", body=schema.NewJob, answers={201: schema.PutAnswer},
        nonced=True, headers=("traceparent",), problems=("job-exists", "too-large", "store-full"),
        notes="When this answers the job is durable, to the level that the store declares.",
        example={"topic": "close-order", "body": {"order": 7}, "delay": "30m", "key": "order-7"}),
    _putting("putJobs", "POST /v1/jobs/batch", jobs.put_many, "Put many jobs, all or none", body=schema.NewJobs,
        answers={201: schema.Ids}, many=True, nonced=True, headers=("traceparent",),
        problems=("job-exists", "too-large", "store-full"), notes="One transaction: the cheapest way to put many.",
        example={"jobs": [{"topic": "mail", "body": {"to": 5}}, {"topic": "mail", "body": {"to": 6}, "delay": "1h"}]}),

    *_one("read", "getJob", "GET /v1/jobs/{}", jobs.get, "Get a job", headers=("If-None-Match",),
        answers={200: schema.JobOut, 304: None}, problems=("no-such-job",),
        notes="Its ETag changes with each edit, each claim and each put that replaces it. Cancel, reschedule and edit "
        "take it as If-Match."),
    *_one("admin", "deleteJob", "DELETE /v1/jobs/{}", jobs.delete, "Forget a job that is not running, and its history",
        answers={204: None}, problems=("no-such-job", "wrong-state")),
    *_one("put", "cancelJob", "POST /v1/jobs/{}/cancel", jobs.cancel, "Cancel a delayed job", **_CHANGED,
        notes="After 204 it is never delivered again."),
    *_one("put", "rescheduleJob", "POST /v1/jobs/{}/reschedule", jobs.edit, "Give a delayed job another due time",
        **_CHANGED, body=schema.Reschedule, example={"delay": "1h"}),
    *_one("put", "editJob", "PATCH /v1/jobs/{}", jobs.edit,
        "Give a delayed job another body, due time, priority or other fields", body=schema.Edit,
        **_CHANGED | {"problems": (*_CHANGED["problems"], "too-large", "store-full")},
        notes="A body and headers come in place of the old ones, as a whole. After 204 each claim has what this left.",
        example={"body": {"order": 8}, "priority": 5, "delay": "1h"}),
    *_one("put", "retryJob", "POST /v1/jobs/{}/retry", jobs.retry,
        "Make a finished job delayed again, with all its attempts", body=schema.Retry, body_needed=False,
        answers={204: None}, problems=("no-such-job", "wrong-state", "job-exists"), example={"delay": "5m"}),
    *_one("read", "getJobHistory", "GET /v1/jobs/{}/history", jobs.history, "The attempts of a job, oldest first",
        answers={200: schema.History}, problems=("no-such-job",)),
    *_one("read", "getJobResult", "GET /v1/jobs/{}/result", jobs.result,
        "The state and result of a job, now or once it has ended", query=schema.ResultOf, by_key=schema.ResultByKey,
        answers={200: schema.ResultOut, 202: schema.ResultOut}, problems=("no-such-job", "too-busy", "share-taken"),
        notes="200: it has ended. 202: it has not, in the time that `wait` gave; ask again."),

    _finding("findJobs", "GET /v1/jobs", jobs.find, "Find jobs", query=schema.Find, answers={200: schema.Found},
        notes="By id; of a range of due times by these; to a token for some topics by topic first. "
        "An answer may have fewer jobs than `limit`, and yet a `next`."),
    _changing("cancelJobs", "POST /v1/jobs/cancel", jobs.change_many,
        "Cancel the delayed jobs that a filter means", word="cancel_many", body=schema.Bulk),
    _changing("retryJobs", "POST /v1/jobs/retry", jobs.change_many,
        "Retry the finished jobs that a filter means; without a state the dead ones", word="retry_many",
        body=schema.BulkRetry),
    _changing("deleteJobs", "POST /v1/jobs/delete", jobs.change_many,
        "Forget the jobs that a filter means and that are not running", word="delete_many", body=schema.Bulk),
    _finding("streamEvents", "GET /v1/events", events.events, "Jobs as they end, and counts as they change",
        query=schema.Events, headers=("Last-Event-ID",), answers={200: bytes}, problems=("too-busy", "share-taken"),
        notes="Server-sent events, once a second: `ended` with a job, `counts` with those of a topic, `missed` if "
        "there were more than could be told. With Last-Event-ID it goes on where it ended."),
    _operation("about", None, "getDocument", "GET /v1/openapi.json", openapi.serve, "This document",
        answers={200: dict}),

    _topics("listTopics", "GET /v1/topics", topics.topics, "The topics, and whether they are paused",
        query=schema.Part, answers={200: schema.Topics}),
    _topics("countJobs", "GET /v1/counts", topics.counts, "How many jobs each topic has in each state",
        answers={200: schema.AllCounts}),
    _pausing("pauseTopic", "POST /v1/topics/{topic}/pause", topics.change,
        "Let no job of a topic start until it is resumed", word="pause"),
    _pausing("resumeTopic", "POST /v1/topics/{topic}/resume", topics.change,
        "Let jobs of a topic start again", word="resume"),

    _topics("getLimits", "GET /v1/topics/{topic}/limits", topics.limits, "The limits that were set for a topic",
        answers={200: schema.LimitsOut}),
    _pausing("setLimits", "PUT /v1/topics/{topic}/limits", topics.limit,
        "Limit how many jobs of a topic run at once and begin in a time", body=schema.NewLimits, problems=("bad-body",),
        notes="In place of what the code of its workers says, and until told otherwise. They hear of it within 2 "
        "seconds; what runs goes on, and counts. Jobs that are reserved are not limited.",
        example={"limit": 5, "rate": "100/m"}),
    _pausing("resetLimits", "DELETE /v1/topics/{topic}/limits", topics.limit_as_code,
        "Let a topic have the limits of its code again"),

    _operation("workers", "read", "listWorkers", "GET /v1/workers", topics.workers, "The workers, and how they do",
        answers={200: schema.Workers}),
    _ordering("quietWorker", "POST /v1/workers/{worker}/quiet", topics.order,
        "Have a worker take no new jobs, and finish what it has begun", word="quiet",
        notes="The worker hears of it within seconds, and stays quiet for 30 days or until it is resumed."),
    _ordering("resumeWorker", "POST /v1/workers/{worker}/resume", topics.order,
        "Have a quiet worker take jobs again", word="resume"),
    _ordering("stopWorker", "POST /v1/workers/{worker}/stop", topics.order,
        "Have a worker drain and end, as at SIGTERM", word="stop",
        notes="A supervisor may start another worker in its place."),
    _operation("schedules", "read", "listSchedules", "GET /v1/schedules", schedules.schedules,
        "Periodic jobs: when each comes next, and what became of the last", query=schema.Part,
        answers={200: schema.Schedules}),
    _schedule("read", "getSchedule", "GET /v1/schedules/{name}", schedules.get,
        "A schedule: when it comes next, and what became of its last job", answers={200: schema.ScheduleOut}),
    _schedule("put", "setSchedule", "PUT /v1/schedules/{name}", schedules.set_,
        "Make a schedule, or change the one of this name", body=schema.NewSchedule, answers={200: schema.ScheduleOut},
        notes="Jobs put ahead for the schedule before are cancelled. A paused schedule stays paused. The same call "
        "again changes nothing.",
        example={"topic": "report", "cron": "0 3 * * *", "tz": "Europe/Berlin", "catch_up": "one"}),
    _schedule("put", "deleteSchedule", "DELETE /v1/schedules/{name}", schedules.delete,
        "Remove a schedule: what was put ahead is cancelled, what runs goes on", answers={204: None},
        notes="One that code declares comes back when a worker with that code starts."),
    _schedule("put", "runSchedule", "POST /v1/schedules/{name}/run", schedules.run,
        "Put a job of a schedule now, beside its others", answers={201: schema.PutAnswer},
        problems=("no-such-schedule", "job-exists"),
        notes="Paused or not. It gives way to one that runs, as the schedule says."),
    _schedule("put", "pauseSchedule", "POST /v1/schedules/{name}/pause", schedules.change,
        "Let a schedule put nothing until it is resumed", word="pause", answers={200: schema.Changed}),
    _schedule("put", "resumeSchedule", "POST /v1/schedules/{name}/resume", schedules.change,
        "Let a schedule go on from now", word="resume", answers={200: schema.Changed}),

    _operation("work", "work", "reserveJobs", "POST /v1/reserve", claims.reserve,
        "Claim due jobs, and wait for some if there are none", again=claims.reserve_again, body=schema.Reserve,
        answers={200: schema.Claims, 204: None}, problems=("too-busy", "share-taken", "no-key"),
        notes="204: nothing came. The bodies of an answer have 16 MiB at most, but one job comes whatever its size. "
        "Settle each job by its receipt before `lease_until`: else it is due again then. "
        "A client that goes away while it waits holds nothing. Repeated with the same Idempotency-Key it gives the "
        "same jobs by the same receipts, less those whose claims are over.",
        example={"topics": ["mail", "report"], "limit": 10, "wait": 20, "ttr": "2m"}),
    _claim("ackClaim", "POST /v1/claims/{receipt}/ack", claims.ack, "The job is done"),
    _claim("nackClaim", "POST /v1/claims/{receipt}/nack", claims.nack, "The attempt failed: due again, or dead",
        body=schema.Nack, answers={200: schema.NackAnswer}, example={"delay": "30s", "error": "502 Bad Gateway"}),
    _claim("buryClaim", "POST /v1/claims/{receipt}/bury", claims.bury, "The job is dead, whatever attempts are left",
        body=schema.Bury, example={"error": "gone"}),
    _claim("touchClaim", "POST /v1/claims/{receipt}/touch", claims.touch, "Let the lease last longer",
        body=schema.Touch, example={"ttr": "2m"}),
    _claim("releaseClaim", "POST /v1/claims/{receipt}/release", claims.release, "Give the job back, no attempt spent"),
)  # fmt: skip


class _Any(PathConvertor):
    """A converter of paths with slashes and line breaks, which names of schedules and topics may have."""

    regex = "(?s:.+)"


register_url_convertor("any", _Any())


def routes(context: Context) -> list[Route]:
    """Return the routes of the API. Routes without a variable part come first: `by-key` is not an id.

    Routes that end in a name, which may have slashes, come last: ``x/pause`` pauses ``x`` and is not a schedule here.
    """
    paths: dict[str, list[Operation]] = {}
    for operation in sorted(
        OPERATIONS, key=lambda operation: ("{" in operation.path, operation.path.endswith("{name}"))
    ):
        paths.setdefault(re.sub(r"{(name|topic|worker)}", r"{\1:any}", operation.path), []).append(operation)
    return [Route(path, Endpoint(context, operations)) for path, operations in paths.items()]
