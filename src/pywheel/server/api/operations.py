"""The table of all operations: what is routed, checked and described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from . import jobs, put
from .call import Endpoint, Operation
from .schema import (
    History,
    Ids,
    JobOut,
    Key_,
    NewJob,
    NewJobs,
    PutAnswer,
    Reschedule,
    Retry,
)

if TYPE_CHECKING:
    from ..context import Context

__all__ = ["OPERATIONS", "routes"]


def _one(name: str, method: str, suffix: str, **words: object) -> list[Operation]:
    """Return an operation on one job twice: by its id, and by its key."""
    by_id = Operation(id=f"{name}Job", method=method, path=f"/v1/jobs/{{id}}{suffix}", tag="jobs", **words)  # type: ignore[arg-type]
    by_key = Operation(
        id=f"{name}JobByKey",
        method=method,
        path=f"/v1/jobs/by-key{suffix}",
        tag="jobs by key",
        query=Key_,
        **words,  # type: ignore[arg-type]
    )
    return [by_key, by_id]


OPERATIONS: Final[list[Operation]] = [
    Operation(
        id="putJob",
        method="POST",
        path="/v1/jobs",
        handler=put.put,
        summary="Put a job",
        tag="put",
        scope="put",
        changes=True,
        body=NewJob,
        headers=("Idempotency-Key", "traceparent"),
        answers={201: PutAnswer},
        problems=("job-exists", "key-reused", "too-large", "store-full"),
        notes="When this answers the job is durable, to the level that the store declares.",
    ),
    Operation(
        id="putJobs",
        method="POST",
        path="/v1/jobs/batch",
        handler=put.put_many,
        summary="Put many jobs, all or none",
        tag="put",
        scope="put",
        changes=True,
        body=NewJobs,
        headers=("Idempotency-Key", "traceparent"),
        answers={201: Ids},
        problems=("job-exists", "key-reused", "too-large", "store-full"),
        notes="One transaction: the cheapest way to put many.",
    ),
    *_one("get", "GET", "", handler=jobs.get, summary="Get a job", scope="read", answers={200: JobOut}),
    *_one(
        "delete",
        "DELETE",
        "",
        handler=jobs.delete,
        summary="Forget a job",
        scope="admin",
        changes=True,
        answers={204: None},
    ),
    *_one(
        "cancel",
        "POST",
        "/cancel",
        handler=jobs.cancel,
        summary="Cancel a delayed job",
        scope="put",
        changes=True,
        answers={204: None},
    ),
    *_one(
        "reschedule",
        "POST",
        "/reschedule",
        handler=jobs.reschedule,
        summary="Give a delayed job another due time",
        scope="put",
        changes=True,
        body=Reschedule,
        answers={204: None},
    ),
    *_one(
        "retry",
        "POST",
        "/retry",
        handler=jobs.retry,
        summary="Make a finished job delayed again",
        scope="put",
        changes=True,
        body=Retry,
        body_needed=False,
        answers={204: None},
    ),
    *_one(
        "history",
        "GET",
        "/history",
        handler=jobs.history,
        summary="What was tried with a job",
        scope="read",
        answers={200: History},
    ),
]


def routes(context: Context) -> list[Route]:
    """Return the routes of the API: one a path, whatever its methods."""
    paths: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, []).append(operation)
    ordered = sorted(paths, key=lambda path: "{" in path)  # what is fixed comes before what may be anything
    return [Route(path, Endpoint(context, paths[path])) for path in ordered]
