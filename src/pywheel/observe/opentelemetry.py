"""OpenTelemetry: spans and metrics by its API alone. Needs the extra ``telemetry``; where they go says the SDK.

    queue = JobQueue(url, listeners=[OpenTelemetry()])

A put is a *send* span, whose context goes along in the job's headers. A handler runs inside a *process* span, and what
becomes of the claim is a *settle* span below it. Names and attributes are those of the messaging conventions 1.44.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from ..events import Event, JobEnded, JobGivenBack, JobSkipped, JobStarted, LeaseLost, Sending, Tracer
from ..jobs.handler import NotNow, RaisedElsewhere
from ..jobs.job import Job, NewJob, Outcome
from .extra import needed
from .labels import TOPICS, Labels

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["OpenTelemetry"]

_LOGGER: Final = logging.getLogger("pywheel.opentelemetry")
_NAME: Final = "pywheel"
_UNSETTLED: Final = 10_000  # claims whose context is kept until they are settled; they are forgotten oldest first
_KIND: Final = re.compile(r"[A-Za-z_][\w.]{0,200}")
_SECONDS: Final = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0]


class OpenTelemetry(Tracer):
    """A listener that makes spans and metrics of what happens.

    Args:
        parent: let the process span be a child of the put's. A job may run days later, in a trace that is closed: so
            it begins a trace of its own, with a link to the put's, unless told.
        topics: how many topics are attributes of metrics; those that come later share ``_others``.
        tracer_provider, meter_provider: those of the API's, unless told.

    Raises:
        TelemetryMissing: opentelemetry-api is not installed.
    """

    def __init__(
        self,
        *,
        parent: bool = False,
        topics: int = TOPICS,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self.trace = needed("opentelemetry.trace")
        self.context = needed("opentelemetry.context")
        self.propagate = needed("opentelemetry.propagate")
        self.parent = parent
        self.labels = Labels(topics)
        self.tracer = self.trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self._ended: dict[tuple[int, int], tuple[Span, int]] = {}
        meter = needed("opentelemetry.metrics").get_meter(_NAME, meter_provider=meter_provider)
        self.sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Jobs that a put attempted to store."
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Jobs that were given to a handler."
        )
        durations: dict[str, Any] = {"unit": "s", "explicit_bucket_boundaries_advisory": _SECONDS}
        self.operations = meter.create_histogram(
            "messaging.client.operation.duration", description="How long puts and settlements took.", **durations
        )
        self.processed = meter.create_histogram(
            "messaging.process.duration", description="How long handlers ran.", **durations
        )
        self._lateness = meter.create_histogram(
            "pywheel.job.lateness", description="From the due time to the start of the handler.", **durations
        )

    # ---- what stands around -----------------------------------------------------------------------------------------

    def sending(self, jobs: tuple[NewJob, ...]) -> AbstractContextManager[Sending]:
        """Return a send span, whose context goes into the headers of all jobs that have no traceparent."""
        return _Send(self, jobs)

    def handling(self, job: Job) -> AbstractContextManager[object]:
        """Return a process span, which is the current one within."""
        return _Process(self, job)

    def carried(self) -> Mapping[str, str]:
        """Return the present context, as the propagators write it."""
        carrier: dict[str, str] = {}
        with _harmless("carry"):
            self.propagate.inject(carrier)
        return carrier

    @contextmanager
    def going_on(self, carried: Mapping[str, str]) -> Iterator[None]:
        """Make that context the current one. Its span is the worker's, who also ends it."""
        token = None
        with _harmless("go on"):
            token = self.context.attach(self.propagate.extract(carried))
        try:
            yield
        finally:
            with _harmless("go on"):
                if token is not None:
                    self.context.detach(token)

    # ---- what happened ----------------------------------------------------------------------------------------------

    def __call__(self, event: Event) -> None:
        """Make a settle span of the end of a claim."""
        match event:
            case JobStarted(job=job, late=late):
                topic = self.labels(job.topic)
                self._consumed.add(1, attributes("process", topic))
                self._lateness.record(late, {"messaging.destination.name": topic})
            case JobEnded(job=job, outcome=Outcome.DONE):
                self._settled(job, "ack", None)
            case JobEnded(job=job, state=state):
                self._settled(job, "nack", None, state)
            case JobGivenBack(job=job) | JobSkipped(job=job):
                self._settled(job, "release", None)
            case LeaseLost(job=job):
                self._settled(job, "ack", "lease_lost")
            case _:
                pass

    def processed_until(self, job: Job, span: Span, now: int) -> None:
        """Note when the handler of a claim ended: there its settling begins."""
        if len(self._ended) >= _UNSETTLED:
            self._ended.pop(next(iter(self._ended)), None)
        self._ended[job.id, job.claims] = span, now

    def _settled(self, job: Job, operation: str, error: str | None, state: str | None = None) -> None:
        span, began = self._ended.pop((job.id, job.claims), (None, None))
        if span is None or began is None:  # it was given back before its handler began
            return
        known = attributes(operation, self.labels(job.topic))
        if error is not None:
            known["error.type"] = error
        now = time.time_ns()
        self.operations.record((now - began) / 1e9, known)
        if not span.get_span_context().is_valid:
            return
        about = {**attributes(operation, job.topic, "settle"), **_about(job), "messaging.message.id": str(job.id)}
        if state is not None:
            about["pywheel.job.state"] = str(state)
        settle = self.tracer.start_span(
            f"{operation} {job.topic}",
            context=self.trace.set_span_in_context(span, self.context.Context()),
            kind=self.trace.SpanKind.CLIENT,
            attributes=about,
            start_time=began,
        )
        if error is not None:
            settle.set_attribute("error.type", error)
            settle.set_status(self.trace.StatusCode.ERROR, "the claim was over: the job is delivered again")
        settle.end(now)


class _Around:
    """What a span of either kind needs."""

    __slots__ = ("_began", "_of", "_span", "_token")

    def __init__(self, of: OpenTelemetry) -> None:
        self._of = of
        self._span: Span | None = None
        self._token: Any = None
        self._began = 0

    def _begin(self, span: Span, context: Context) -> None:
        self._span = span
        self._token = self._of.context.attach(self._of.trace.set_span_in_context(span, context))

    def _end(self, error: BaseException | None, now: int) -> None:
        if self._token is not None:
            self._of.context.detach(self._token)
        span = self._span
        if span is None:
            return
        if error is not None and span.is_recording():
            span.set_attribute("error.type", _kind(error))
            if not isinstance(error, RaisedElsewhere):
                span.record_exception(error)
            span.set_status(self._of.trace.StatusCode.ERROR, str(error)[:1000])
        span.end(now)


class _Send(_Around):
    """A put."""

    __slots__ = ("_sending", "_topic")

    def __init__(self, of: OpenTelemetry, jobs: tuple[NewJob, ...]) -> None:
        super().__init__(of)
        self._sending = Sending(jobs)
        topics = {job.topic for job in jobs}
        self._topic = topics.pop() if len(topics) == 1 else ""

    def __enter__(self) -> Sending:
        with _harmless("send"):
            of, jobs = self._of, self._sending.jobs
            self._began = time.time_ns()
            about = attributes("send", self._topic, "send")
            if len(jobs) != 1:
                about["messaging.batch.message_count"] = len(jobs)
            name = f"send {self._topic}".strip()
            span = of.tracer.start_span(name, kind=of.trace.SpanKind.PRODUCER, attributes=about, start_time=self._began)
            self._begin(span, of.context.get_current())
            carrier = of.carried()
            if carrier:
                self._sending.jobs = tuple(_with_headers(job, carrier) for job in jobs)
        return self._sending

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _harmless("send"):
            sending, now = self._sending, time.time_ns()
            ids = sending.ids
            if self._span is not None and len(ids) == 1:
                self._span.set_attribute("messaging.message.id", str(ids[0]))
            self._end(error, now)
            failed = {} if error is None else {"error.type": _kind(error)}
            topic = self._of.labels(self._topic) if self._topic else ""
            self._of.operations.record((now - self._began) / 1e9, {**attributes("send", topic), **failed})
            for name in {job.topic for job in sending.jobs}:
                count = sum(job.topic == name for job in sending.jobs)
                self._of.sent.add(count, {**attributes("send", self._of.labels(name)), **failed})


class _Process(_Around):
    """A handler at work."""

    __slots__ = ("_job",)

    def __init__(self, of: OpenTelemetry, job: Job) -> None:
        super().__init__(of)
        self._job = job

    def __enter__(self) -> Self:
        with _harmless("process"):
            of, job = self._of, self._job
            self._began = time.time_ns()
            put = of.propagate.extract(job.headers, of.context.Context())
            putting = of.trace.get_current_span(put).get_span_context()
            link = putting.is_valid and not of.parent
            about = {**attributes("process", job.topic, "process"), **_about(job)}
            about["messaging.message.body.size"] = len(job.body)
            span = of.tracer.start_span(
                f"process {job.topic}",
                context=of.context.Context() if link else put,
                kind=of.trace.SpanKind.CONSUMER,
                links=[of.trace.Link(putting)] if link else None,
                attributes=about,
                start_time=self._began,
            )
            self._begin(span, put)  # with the baggage that came along
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _harmless("process"):
            now = time.time_ns()
            if isinstance(error, NotNow):  # it has tried nothing, and nothing went wrong
                error = None
            self._end(error, now)
            known = attributes("process", self._of.labels(self._job.topic))
            if error is not None:
                known["error.type"] = _kind(error)
            self._of.processed.record((now - self._began) / 1e9, known)
            if self._span is not None:
                self._of.processed_until(self._job, self._span, now)


def attributes(operation: str, topic: str, kind: str | None = None) -> dict[str, Any]:
    """Return what the conventions want of every span, and without a kind of every metric."""
    known: dict[str, Any] = {"messaging.system": _NAME, "messaging.operation.name": operation}
    if topic:
        known["messaging.destination.name"] = topic
    if kind is not None:
        known["messaging.operation.type"] = kind
    return known


def _about(job: Job) -> dict[str, Any]:
    return {"messaging.message.id": str(job.id), "pywheel.job.attempt": job.attempt}


def _with_headers(job: NewJob, carrier: Mapping[str, str]) -> NewJob:
    """Return a job whose headers have the context of its put, unless the caller gave it one."""
    if job.headers and "traceparent" in job.headers:
        return job
    return job._replace(headers={**(job.headers or {}), **carrier})


def _kind(error: BaseException) -> str:
    """Return the class of an error; also of one that was raised in another process, where only its text is known."""
    if isinstance(error, RaisedElsewhere):
        name = error.text.rpartition("\n")[2].partition(":")[0]
        return name if _KIND.fullmatch(name) else "error"
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


class _harmless:  # noqa: N801  (a function in all but speed)
    """Logs what goes wrong within: a processor or a propagator that fails costs no job."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            _LOGGER.error("OpenTelemetry failed to %s", self._what, exc_info=error)
            return True
        return False
