"""The table of all operations: what is routed, checked and described."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Route

from . import claims, events, find, jobs, openapi, put, schedules, schema, topics
from .call import Endpoint, Operation

if TYPE_CHECKING:
    from ..context import Context

__all__ = ["OPERATIONS", "routes"]


def _one(
    name: str, method: str, suffix: str, *, id: str | None = None, by_key: Any = schema.ByKey, **words: Any
) -> list[Operation]:
    """Return an operation on one job twice: by its id, and by its key."""
    named = id or f"{name}Job"
    return [
        Operation(id=named, method=method, path=f"/v1/jobs/{{id}}{suffix}", tag="one job", **words),
        Operation(
            id=f"{named}ByKey",
            method=method,
            path=f"/v1/jobs/by-key{suffix}",
            tag="one job",
            **{**words, "query": by_key, "summary": f"{words['summary']}, named by its key"},
        ),
    ]


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        id="putJob",
        method="POST",
        path="/v1/jobs",
        handler=put.put,
        summary="Put a job",
        tag="put",
        scope="put",
        body=schema.NewJob,
        nonced=True,
        headers=("traceparent",),
        answers={201: schema.PutAnswer},
        problems=("job-exists", "too-large", "store-full"),
        notes="When this answers the job is durable, to the level that the store declares.",
        example={"topic": "close-order", "body": {"order": 7}, "delay": "30m", "key": "order-7"},
    ),
    Operation(
        id="putJobs",
        method="POST",
        path="/v1/jobs/batch",
        handler=put.put_many,
        summary="Put many jobs, all or none",
        tag="put",
        scope="put",
        body=schema.NewJobs,
        many=True,
        nonced=True,
        headers=("traceparent",),
        answers={201: schema.Ids},
        problems=("job-exists", "too-large", "store-full"),
        notes="One transaction: the cheapest way to put many.",
        example={"jobs": [{"topic": "mail", "body": {"to": 5}}, {"topic": "mail", "body": {"to": 6}, "delay": "1h"}]},
    ),
    *_one(
        "get",
        "GET",
        "",
        handler=jobs.get,
        summary="Get a job",
        scope="read",
        headers=("If-None-Match",),
        answers={200: schema.JobOut, 304: None},
        problems=("no-such-job",),
        notes="Its ETag changes with each edit, each claim and each put that replaces it. Cancel, reschedule and edit "
        "take it as If-Match.",
    ),
    *_one(
        "delete",
        "DELETE",
        "",
        handler=jobs.delete,
        summary="Forget a job that is not running, and its history",
        scope="admin",
        answers={204: None},
        problems=("no-such-job", "wrong-state"),
    ),
    *_one(
        "cancel",
        "POST",
        "/cancel",
        handler=jobs.cancel,
        summary="Cancel a delayed job",
        scope="put",
        headers=("If-Match",),
        answers={204: None},
        problems=("no-such-job", "wrong-state", "changed"),
        notes="After 204 it is never delivered again.",
    ),
    *_one(
        "reschedule",
        "POST",
        "/reschedule",
        handler=jobs.edit,
        summary="Give a delayed job another due time",
        scope="put",
        body=schema.Reschedule,
        headers=("If-Match",),
        answers={204: None},
        problems=("no-such-job", "wrong-state", "changed"),
        example={"delay": "1h"},
    ),
    *_one(
        "edit",
        "PATCH",
        "",
        handler=jobs.edit,
        summary="Give a delayed job another body, due time, priority or other fields",
        scope="put",
        body=schema.Edit,
        headers=("If-Match",),
        answers={204: None},
        problems=("no-such-job", "wrong-state", "changed", "too-large", "store-full"),
        notes="A body and headers come in place of the old ones, as a whole. After 204 each claim has what this left.",
        example={"body": {"order": 8}, "priority": 5, "delay": "1h"},
    ),
    *_one(
        "retry",
        "POST",
        "/retry",
        handler=jobs.retry,
        summary="Make a finished job delayed again, with all its attempts",
        scope="put",
        body=schema.Retry,
        body_needed=False,
        answers={204: None},
        problems=("no-such-job", "wrong-state", "job-exists"),
        example={"delay": "5m"},
    ),
    *_one(
        "history",
        "GET",
        "/history",
        id="getJobHistory",
        handler=jobs.history,
        summary="What was tried with a job, oldest first",
        scope="read",
        answers={200: schema.History},
        problems=("no-such-job",),
    ),
    *_one(
        "result",
        "GET",
        "/result",
        id="getJobResult",
        handler=jobs.result,
        summary="What has become of a job, now or once it has ended",
        scope="read",
        query=schema.ResultOf,
        by_key=schema.ResultByKey,
        answers={200: schema.ResultOut, 202: schema.ResultOut},
        problems=("no-such-job", "too-busy", "share-taken"),
        notes="200: it has ended. 202: it has not, in the time that `wait` gave; ask again.",
    ),
    Operation(
        id="findJobs",
        method="GET",
        path="/v1/jobs",
        handler=find.find,
        summary="Find jobs",
        tag="many jobs",
        scope="read",
        query=schema.Find,
        answers={200: schema.Found},
        notes="By id; of a range of due times by these; to a token for some topics by topic first. "
        "An answer may have fewer jobs than `limit`, and yet a `next`.",
    ),
    *(
        Operation(
            id=f"{name}Jobs",
            method="POST",
            path=f"/v1/jobs/{name}",
            handler=handler,
            summary=summary,
            tag="many jobs",
            scope="admin",
            body=body,
            answers={200: schema.BulkAnswer},
            problems=("bad-body",),
            notes="In batches, each of them one transaction. With `dry_run` nothing changes.",
            example={"topic": "mail", "error": "502", "dry_run": True},
        )
        for name, handler, summary, body in (
            ("cancel", find.cancel_many, "Cancel the delayed jobs that a filter means", schema.Bulk),
            (
                "retry",
                find.retry_many,
                "Retry the finished jobs that a filter means, the dead ones unless told",
                schema.BulkRetry,
            ),
            ("delete", find.delete_many, "Forget the jobs that a filter means and that are not running", schema.Bulk),
        )
    ),
    Operation(
        id="streamEvents",
        method="GET",
        path="/v1/events",
        handler=events.events,
        summary="Jobs as they end, and counts as they change",
        tag="many jobs",
        scope="read",
        query=schema.Events,
        headers=("Last-Event-ID",),
        answers={200: bytes},
        problems=("too-busy", "share-taken"),
        notes="Server-sent events, once a second: `ended` with a job, `counts` with those of a topic, `missed` if "
        "there were more than could be told. With Last-Event-ID it goes on where it ended.",
    ),
    Operation(
        id="getDocument",
        method="GET",
        path="/v1/openapi.json",
        handler=openapi.serve,
        summary="This document",
        tag="about",
        answers={200: dict},
    ),
    Operation(
        id="listTopics",
        method="GET",
        path="/v1/topics",
        handler=topics.topics,
        summary="The topics, and whether they are paused",
        tag="topics",
        scope="read",
        query=schema.Part,
        answers={200: schema.Topics},
    ),
    Operation(
        id="countJobs",
        method="GET",
        path="/v1/counts",
        handler=topics.counts,
        summary="How many jobs each topic has in each state",
        tag="topics",
        scope="read",
        answers={200: schema.AllCounts},
    ),
    *(
        Operation(
            id=f"{name}Topic",
            method="POST",
            path=f"/v1/topics/{{topic}}/{name}",
            handler=handler,
            summary=summary,
            tag="topics",
            scope="admin",
            answers={200: schema.Changed},
        )
        for name, handler, summary in (
            ("pause", topics.pause, "Let no job of a topic start until it is resumed"),
            ("resume", topics.resume, "Let jobs of a topic start again"),
        )
    ),
    Operation(
        id="listSchedules",
        method="GET",
        path="/v1/schedules",
        handler=schedules.schedules,
        summary="Periodic jobs: when each comes next, and what became of the last",
        tag="schedules",
        scope="read",
        query=schema.Part,
        answers={200: schema.Schedules},
    ),
    Operation(
        id="getSchedule",
        method="GET",
        path="/v1/schedules/{name}",
        handler=schedules.get,
        summary="A schedule: when it comes next, and what became of its last job",
        tag="schedules",
        scope="read",
        answers={200: schema.ScheduleOut},
        problems=("no-such-schedule",),
    ),
    Operation(
        id="setSchedule",
        method="PUT",
        path="/v1/schedules/{name}",
        handler=schedules.set_,
        summary="Make a schedule, or change the one of this name",
        tag="schedules",
        scope="put",
        body=schema.NewSchedule,
        answers={200: schema.ScheduleOut},
        problems=("no-such-schedule",),
        notes="What was put ahead for the one before is cancelled. One that is paused stays so. The same said again "
        "changes nothing.",
        example={"topic": "report", "cron": "0 3 * * *", "tz": "Europe/Berlin", "catch_up": "one"},
    ),
    Operation(
        id="deleteSchedule",
        method="DELETE",
        path="/v1/schedules/{name}",
        handler=schedules.delete,
        summary="Remove a schedule: what was put ahead is cancelled, what runs goes on",
        tag="schedules",
        scope="put",
        answers={204: None},
        problems=("no-such-schedule",),
        notes="One that code declares comes back when a worker with that code starts.",
    ),
    Operation(
        id="runSchedule",
        method="POST",
        path="/v1/schedules/{name}/run",
        handler=schedules.run,
        summary="Put a job of a schedule now, beside its others",
        tag="schedules",
        scope="put",
        answers={201: schema.PutAnswer},
        problems=("no-such-schedule", "job-exists"),
        notes="Paused or not. It gives way to one that runs, as the schedule says.",
    ),
    *(
        Operation(
            id=f"{name}Schedule",
            method="POST",
            path=f"/v1/schedules/{{name}}/{name}",
            handler=handler,
            summary=summary,
            tag="schedules",
            scope="put",
            answers={200: schema.Changed},
            problems=("no-such-schedule",),
        )
        for name, handler, summary in (
            ("pause", schedules.pause, "Let a schedule put nothing until it is resumed"),
            ("resume", schedules.resume, "Let a schedule go on from now"),
        )
    ),
    Operation(
        id="reserveJobs",
        method="POST",
        path="/v1/reserve",
        handler=claims.reserve,
        again=claims.reserve_again,
        summary="Claim due jobs, and wait for some if there are none",
        tag="work",
        scope="work",
        body=schema.Reserve,
        answers={200: schema.Claims, 204: None},
        problems=("too-busy", "share-taken", "no-key"),
        notes="204: nothing came. The bodies of an answer have 16 MiB at most, but one job comes whatever its size. "
        "Settle each job by its receipt before `lease_until`: else it is due again then. "
        "A client that goes away while it waits holds nothing. Repeated with the same Idempotency-Key it gives the "
        "same jobs by the same receipts, less those whose claims are over.",
        example={"topics": ["mail", "report"], "limit": 10, "wait": 20, "ttr": "2m"},
    ),
    *(
        Operation(
            id=f"{name}Claim",
            method="POST",
            path=f"/v1/claims/{{receipt}}/{name}",
            handler=handler,
            summary=summary,
            tag="work",
            scope="work",
            body=body,
            body_needed=False,
            answers=answers,
            problems=("claim-lost", "not-found"),
            example=example,
        )
        for name, handler, summary, body, answers, example in (
            ("ack", claims.ack, "The job is done", None, {204: None}, None),
            (
                "nack",
                claims.nack,
                "The attempt failed: due again, or dead",
                schema.Nack,
                {200: schema.NackAnswer},
                {"delay": "30s", "error": "502 Bad Gateway"},
            ),
            (
                "bury",
                claims.bury,
                "The job is dead, whatever attempts are left",
                schema.Bury,
                {204: None},
                {"error": "gone"},
            ),
            ("touch", claims.touch, "Let the lease last longer", schema.Touch, {204: None}, {"ttr": "2m"}),
            ("release", claims.release, "Give the job back, no attempt spent", None, {204: None}, None),
        )
    ),
)


class _Any(Convertor[str]):
    """Takes slashes and line breaks as well: a schedule or a topic may be named so."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", _Any())


def routes(context: Context) -> list[Route]:
    """Return the routes of the API. Those without a variable part come first: no key is taken for an id.

    Those that end in a name, which may have slashes, come last: ``x/pause`` is no schedule here, but pauses one.
    """
    paths: dict[str, list[Operation]] = {}
    for operation in sorted(
        OPERATIONS, key=lambda operation: ("{" in operation.path, operation.path.endswith("{name}"))
    ):
        paths.setdefault(re.sub(r"{(name|topic)}", r"{\1:any}", operation.path), []).append(operation)
    return [Route(path, Endpoint(context, operations)) for path, operations in paths.items()]
