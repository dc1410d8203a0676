"""OpenTelemetry: spans and metrics by its API alone. Needs the extra ``telemetry``; the SDK decides where they go.

    queue = JobQueue(url, listeners=[OpenTelemetry()])

A put is a *send* span, whose context the job's headers carry. A handler runs inside a *process* span, and the end of
the claim is a *settle* span below it. Names and attributes are those of the messaging conventions 1.44.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..events import Event, JobEnded, JobGivenBack, JobSkipped, JobStarted, LeaseLost, Sending, Tracer
from ..jobs.checks import needed
from ..jobs.handler import NotNow, RaisedElsewhere
from ..jobs.job import Job, NewJob, Outcome
from .tally import TOPICS, Labels

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Link, Span, SpanKind, TracerProvider

_LOGGER: Final = logging.getLogger("pywheel.opentelemetry")
_NAME: Final = "pywheel"
_UNSETTLED: Final = 10_000  # claims whose span is kept until they are settled; the oldest is forgotten first
_KIND: Final = re.compile(r"[A-Za-z_][\w.]{0,200}")
_SECONDS: Final = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0]


class OpenTelemetry(Tracer):
    """A listener that makes spans and metrics of events.

    Args:
        parent: make the process span a child of the send span. By default a job begins a trace of its own, with a link
            to the send span: it may run days later, when the put's trace is closed.
        topics: how many topics are attributes of metrics; later topics share ``_others``.
        tracer_provider, meter_provider: by default the API's global ones.

    Raises:
        ExtraMissing: opentelemetry-api is not installed.
    """

    def __init__(
        self,
        *,
        parent: bool = False,
        topics: int = TOPICS,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._trace = needed("opentelemetry.trace", "telemetry")
        self._context = needed("opentelemetry.context", "telemetry")
        self._propagate = needed("opentelemetry.propagate", "telemetry")
        self._parent = parent
        self._labels = Labels(topics)
        self._tracer = self._trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self._ended: dict[tuple[int, int], tuple[Span, int, int]] = {}  # when, by the wall and by the monotonic clock
        meter = needed("opentelemetry.metrics", "telemetry").get_meter(_NAME, meter_provider=meter_provider)
        counted = partial(meter.create_counter, unit="{message}")
        self._sent = counted("messaging.client.sent.messages", description="Jobs that a put attempted to store.")
        self._consumed = counted("messaging.client.consumed.messages", description="Jobs that were given to a handler.")
        timed = partial(meter.create_histogram, unit="s", explicit_bucket_boundaries_advisory=_SECONDS)
        self._operations = timed(
            "messaging.client.operation.duration", description="How long puts and settlements took."
        )
        self._processed = timed("messaging.process.duration", description="How long handlers ran.")
        self._lateness = timed("pywheel.job.lateness", description="From the due time to the start of the handler.")

    # ---- spans around calls -----------------------------------------------------------------------------------------

    @contextmanager
    def sending(self, jobs: tuple[NewJob, ...]) -> Iterator[Sending]:
        """Make a send span the current one. Its context goes into the headers of jobs without a traceparent."""
        sending = Sending(jobs)
        topics = {job.topic for job in jobs}
        topic = topics.pop() if len(topics) == 1 else ""
        about = _attributes("send", topic, "send")
        if len(jobs) != 1:
            about["messaging.batch.message_count"] = len(jobs)

        def ended(span: Span, seconds: float, now: int, failed: dict[str, str]) -> None:  # noqa: ARG001
            if len(sending.ids) == 1:
                span.set_attribute("messaging.message.id", str(sending.ids[0]))
            self._operations.record(seconds, _attributes("send", self._labels(topic)) | failed)
            for name, count in Counter(job.topic for job in jobs).items():
                self._sent.add(count, _attributes("send", self._labels(name)) | failed)

        name, kind = f"send {topic}".strip(), self._trace.SpanKind.PRODUCER
        with self._current(name, kind, about, lambda: (None, self._context.get_current(), None), ended):
            carrier = self.carried()
            if carrier:
                sending.jobs = tuple(map(partial(_within, carrier), jobs))
            yield sending

    @contextmanager
    def handling(self, job: Job) -> Iterator[None]:
        """Make a process span the current one."""
        about = _attributes("process", job.topic, "process", job) | {"messaging.message.body.size": len(job.body)}

        def contexts() -> tuple[Context, Context, list[Link] | None]:
            put = self._propagate.extract(job.headers, self._context.Context())  # with its baggage
            putting = self._trace.get_current_span(put).get_span_context()
            if putting.is_valid and not self._parent:
                return self._context.Context(), put, [self._trace.Link(putting)]
            return put, put, None

        def ended(span: Span, seconds: float, now: int, failed: dict[str, str]) -> None:
            self._processed.record(seconds, _attributes("process", self._labels(job.topic)) | failed)
            if len(self._ended) >= _UNSETTLED:
                self._ended.pop(next(iter(self._ended)), None)
            self._ended[job.id, job.claims] = span, now, time.monotonic_ns()  # the settle span begins there

        with self._current(f"process {job.topic}", self._trace.SpanKind.CONSUMER, about, contexts, ended):
            yield

    @contextmanager
    def _current(
        self,
        name: str,
        kind: SpanKind,
        about: dict[str, Any],
        contexts: Callable[[], tuple[Context | None, Context, list[Link] | None]],
        ended: Callable[[Span, float, int, dict[str, str]], None],
    ) -> Iterator[None]:
        """Make a new span the current one within this context. An error of the body becomes the span's, and propagates.

        `contexts` returns the parent context of the span, the context in which it becomes current, and its links.
        """
        token, error = None, None
        began, since = time.time_ns(), time.monotonic_ns()  # spans show the time of day, which may be set meanwhile
        with _harmless(name):
            parent, around, links = contexts()
            span = self._tracer.start_span(name, parent, kind=kind, attributes=about, links=links, start_time=began)
            token = self._context.attach(self._trace.set_span_in_context(span, around))
        try:
            yield
        except BaseException as raised:
            error = None if isinstance(raised, NotNow) else raised  # NotNow is not a failure
            raise
        finally:
            if token is not None:
                with _harmless(name):
                    now = time.time_ns()
                    failed = {} if error is None else {"error.type": _kind(error)}
                    self._context.detach(token)
                    ended(span, (time.monotonic_ns() - since) / 1e9, now, failed)
                    if error is not None and span.is_recording():
                        span.set_attributes(failed)
                        if not isinstance(error, RaisedElsewhere):
                            span.record_exception(error)
                        span.set_status(self._trace.StatusCode.ERROR, str(error)[:1000])
                    span.end(now)

    def carried(self) -> Mapping[str, str]:
        """Return the current context, as the propagators write it."""
        carrier: dict[str, str] = {}
        with _harmless("carry"):
            self._propagate.inject(carrier)
        return carrier

    @contextmanager
    def going_on(self, carried: Mapping[str, str]) -> Iterator[None]:
        """Make a carried context the current one. Its span belongs to the worker, which ends it."""
        token = None
        with _harmless("go on"):
            token = self._context.attach(self._propagate.extract(carried))
        try:
            yield
        finally:
            with _harmless("go on"):
                if token is not None:
                    self._context.detach(token)

    # ---- events -----------------------------------------------------------------------------------------------------

    def __call__(self, event: Event) -> None:
        """Make metrics of a start, and a settle span and metrics of the end of a claim."""
        match event:
            case JobStarted(job=job, late=late):
                topic = self._labels(job.topic)
                self._consumed.add(1, _attributes("process", topic))
                self._lateness.record(late, {"messaging.destination.name": topic})
            case JobEnded(job=job, outcome=Outcome.DONE):
                self._settled(job, "ack", None)
            case JobEnded(job=job, state=state):
                self._settled(job, "nack", None, state)
            case JobGivenBack(job=job) | JobSkipped(job=job):
                self._settled(job, "release", None)
            case LeaseLost(job=job):
                self._settled(job, "ack", "lease_lost")

    def _settled(self, job: Job, operation: str, error: str | None, state: str | None = None) -> None:
        span, began, since = self._ended.pop((job.id, job.claims), (None, 0, 0))
        if span is None:  # the claim was given back before its handler began
            return
        now, failed = time.time_ns(), {} if error is None else {"error.type": error}
        seconds = (time.monotonic_ns() - since) / 1e9
        self._operations.record(seconds, _attributes(operation, self._labels(job.topic)) | failed)
        if not span.get_span_context().is_valid:
            return
        about = _attributes(operation, job.topic, "settle", job)
        if state is not None:
            about["pywheel.job.state"] = str(state)
        settle = self._tracer.start_span(
            f"{operation} {job.topic}",
            context=self._trace.set_span_in_context(span, self._context.Context()),
            kind=self._trace.SpanKind.CLIENT,
            attributes=about | failed,
            start_time=began,
        )
        if error is not None:
            settle.set_status(self._trace.StatusCode.ERROR, "the claim was over: the job is delivered again")
        settle.end(now)


def _attributes(operation: str, topic: str, kind: str | None = None, job: Job | None = None) -> dict[str, Any]:
    """Return the attributes that the conventions require: of a metric; with a kind, of a span; with a job, its own."""
    known: dict[str, Any] = {"messaging.system": _NAME, "messaging.operation.name": operation}
    if topic:
        known["messaging.destination.name"] = topic
    if kind is not None:
        known["messaging.operation.type"] = kind
    if job is not None:
        known |= {"messaging.message.id": str(job.id), "pywheel.job.attempt": job.attempt}
    return known


def _within(context: Mapping[str, str], job: NewJob) -> NewJob:
    """Return a job with a context added to its headers, unless the caller gave it one."""
    headers = job.headers or {}
    return job if "traceparent" in headers else job._replace(headers={**headers, **context})


def _kind(error: BaseException) -> str:
    """Return the name of an error's class. The text alone gives it if the error was raised in another process."""
    if isinstance(error, RaisedElsewhere):
        name = error.text.rpartition("\n")[2].partition(":")[0]
        return name if _KIND.fullmatch(name) else "error"
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


@contextmanager
def _harmless(what: str) -> Iterator[None]:
    """Log errors of the body: a processor or a propagator that fails costs no job."""
    try:
        yield
    except Exception:
        _LOGGER.exception("OpenTelemetry failed to %s", what)
