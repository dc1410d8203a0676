"""Spans and metrics of a real queue and a real worker."""

import asyncio
import functools
import sqlite3
from types import SimpleNamespace

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from pywheel import BadOption, Fixed, JobExists, JobQueue, NoSuchJob, NotNow, RetryLater
from pywheel.events import JobEnded, LeaseLost
from pywheel.jobs import Outcome, State
from pywheel.jobs.commands import Put, SetNote
from pywheel.observe.opentelemetry import OpenTelemetry
from pywheel.testing import run_due
from tests.jobs.waiting import finished, until, working
from tests.observe.traces import Traces

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def traces():
    return Traces()


@pytest.fixture
def queue(traces):
    with JobQueue("memory:", listeners=[traces.listener]) as queue:
        yield queue


def handled(queue, *jobs):
    """Work until these jobs have ended and their ends were told."""
    with working(queue):
        for id in jobs:
            finished(queue, id)


def test_a_job_is_a_send_span_a_process_span_and_a_settle_span(queue, traces):
    seen = []
    queue.handler("mail")(lambda job: seen.append(trace.get_current_span().get_span_context()))
    id = queue.put("mail", b"body")
    handled(queue, id)
    send, process, settle = (traces.span(f"{word} mail") for word in ("send", "process", "ack"))
    assert (send.kind, process.kind, settle.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CLIENT)
    about = {"messaging.system": "pywheel", "messaging.destination.name": "mail", "messaging.message.id": str(id)}
    for span, kind in ((send, "send"), (process, "process"), (settle, "settle")):
        assert {**about, "messaging.operation.type": kind}.items() <= span.attributes.items()
        assert span.status.status_code is StatusCode.UNSET
    own = {"messaging.operation.name": "process", "messaging.operation.type": "process"}
    assert dict(process.attributes) == {
        **about, **own, "messaging.message.body.size": 4, "pywheel.job.attempt": 1,
    }  # fmt: skip
    assert seen == [process.context]
    assert (settle.parent, settle.context.trace_id) == (process.context, process.context.trace_id)
    assert process.end_time == settle.start_time <= settle.end_time


def test_a_handler_is_linked_to_its_put_and_begins_a_trace_of_its_own(queue, traces):
    queue.handler("mail")(lambda job: None)
    id = queue.put("mail")
    send = traces.span("send mail")
    assert queue.get(id).traceparent[:-3] == f"00-{send.context.trace_id:032x}-{send.context.span_id:016x}"
    with traces.tracer.start_as_current_span("somebody who runs a worker"):
        handled(queue, id)
    process = traces.span("process mail")
    assert process.parent is None
    assert process.context.trace_id != send.context.trace_id
    assert [(link.context.trace_id, link.context.span_id) for link in process.links] == [
        (send.context.trace_id, send.context.span_id)
    ]


def test_a_handler_is_a_child_of_its_put_if_that_is_wanted():
    traces = Traces(parent=True)
    with JobQueue("memory:", listeners=[traces.listener]) as queue:
        queue.handler("mail")(lambda job: None)
        with traces.tracer.start_as_current_span("request") as request:
            id = queue.put("mail")
        handled(queue, id)
    send, process = traces.span("send mail"), traces.span("process mail")
    assert send.parent == request.get_span_context()
    assert (process.parent.span_id, process.context.trace_id) == (send.context.span_id, send.context.trace_id)
    assert process.links == ()


def test_a_trace_that_the_caller_names_stays_the_jobs_own_and_baggage_comes_along(queue, traces):
    seen = []
    queue.handler("mail")(lambda job: seen.append((baggage.get_baggage("shop"), job.headers["a"])))
    token = context.attach(baggage.set_baggage("shop", "7"))
    try:
        id = queue.put("mail", headers={"a": "b"})
    finally:
        context.detach(token)
    named = queue.put("mail", traceparent=TRACE, headers={"a": "b"})
    assert dict(queue.get(named).headers) == {"a": "b", "traceparent": TRACE}
    handled(queue, id, named)
    assert sorted(seen, key=str) == [("7", "b"), (None, "b")]
    ends = {span.attributes["messaging.message.id"]: span for span in traces.spans("process mail")}
    [link] = ends[str(named)].links
    assert f"{link.context.trace_id:032x}" == TRACE[3:35]


def test_many_jobs_are_one_send_span_to_which_all_are_linked(queue, traces):
    queue.handler("mail")(lambda job: None)
    queue.handler("sms")(lambda job: None)
    ids = queue.put_many([queue.job("mail"), queue.job("sms"), queue.job("mail")])
    handled(queue, *ids)
    send = traces.span("send")
    assert send.attributes["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in send.attributes
    links = [span.links[0].context.span_id for span in traces.spans() if span.name.startswith("process")]
    assert links == [send.context.span_id] * 3
    sent = {point.attributes["messaging.destination.name"]: point.value for point in traces.points(SENT)}
    assert sent == {"mail": 2, "sms": 1}


SENT = "messaging.client.sent.messages"


def test_puts_of_tasks_are_traced_each_in_its_own_context(queue, traces):
    async def put(name):
        with traces.tracer.start_as_current_span(name):
            await queue.aio.put(name)
            await queue.aio.put_many([queue.job(name)])
            assert trace.get_current_span().name == name

    async def main():
        await asyncio.gather(*(put(f"t{n}") for n in range(5)))

    asyncio.run(main())
    for n in range(5):
        request = traces.span(f"t{n}")
        assert [span.parent.span_id for span in traces.spans(f"send t{n}")] == [request.context.span_id] * 2


def test_a_put_among_other_commands_is_traced_and_a_refused_one_is_an_error(queue, traces):
    put = Put((queue.job("t", key="k", delay=60),))

    async def among_others(*commands):
        return await asyncio.gather(*map(queue.calls.aapply, commands), return_exceptions=True)

    _, [id], _ = asyncio.run(among_others(SetNote("note", b"x"), put, Put((queue.job("u", key="k"),))))
    assert traces.span("send t").attributes["messaging.message.id"] == str(id)
    assert queue.get(id).trace_id == f"{traces.span('send t').context.trace_id:032x}"
    [refused] = asyncio.run(among_others(put))
    assert isinstance(refused, JobExists)
    first, second = traces.spans("send t")
    assert [span.status.status_code for span in (first, second)] == [StatusCode.UNSET, StatusCode.ERROR]
    assert second.attributes["error.type"] == "pywheel.JobExists"
    assert {point.attributes.get("error.type") for point in traces.points(SENT)} == {None, "pywheel.JobExists"}
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_put_in_the_callers_own_transaction_is_traced(tmp_path, traces):
    path = tmp_path / "jobs.db"
    with JobQueue(f"sqlite:///{path}", listeners=[traces.listener]) as queue:
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            id = queue.put("t", connection=connection)
            connection.execute("COMMIT")
        finally:
            connection.close()
        assert queue.get(id).trace_id == f"{traces.span('send t').context.trace_id:032x}"
    assert traces.span("send t").attributes["messaging.message.id"] == str(id)


def plain(spans):
    return lambda job: spans.append(trace.get_current_span().get_span_context())


def coroutine(spans):
    async def handle(job):
        await asyncio.sleep(0)
        spans.append(trace.get_current_span().get_span_context())

    return handle


def wrapped(spans):
    return lambda job: coroutine(spans)(job)


@pytest.mark.parametrize("kind", [plain, coroutine, wrapped, lambda spans: functools.partial(coroutine(spans))])
def test_a_handler_of_every_kind_runs_inside_its_span(queue, traces, kind):
    spans = []
    queue.handler("t", concurrency=4)(kind(spans))
    ids = [queue.put("t") for _ in range(20)]
    handled(queue, *ids)
    assert sorted(spans, key=str) == sorted((span.context for span in traces.spans("process t")), key=str)
    assert len({span.span_id for span in spans}) == 20


def test_a_handler_that_fails_is_an_error_with_its_class_and_the_job_is_nacked(queue, traces):
    @queue.handler("t", retry=Fixed("1ms", attempts=2))
    def fail(job):
        raise NoSuchJob("no order 7") if job.attempt == 1 else RetryLater("1h")

    id = queue.put("t")
    with working(queue):
        until(lambda: len(traces.spans("nack t")) == 2)
    first, second = traces.spans("process t")
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "no order 7")
    assert first.attributes["error.type"] == "pywheel.NoSuchJob"
    assert [event.name for event in first.events] == ["exception"]
    assert second.attributes["pywheel.job.attempt"] == 2
    assert [span.attributes["pywheel.job.state"] for span in traces.spans("nack t")] == ["delayed", "dead"]
    assert [span.status.status_code for span in traces.spans("nack t")] == [StatusCode.UNSET] * 2
    assert str(id) == first.attributes["messaging.message.id"]


def test_a_handler_to_which_it_is_not_for_now_has_not_failed(queue, traces):
    @queue.handler("t")
    def later(job):
        raise NotNow("1h")

    queue.put("t")
    run_due(queue)
    process = traces.span("process t")
    assert (process.status.status_code, process.events) == (StatusCode.UNSET, ())
    assert "error.type" not in process.attributes


def test_a_lost_lease_is_a_settlement_that_failed_and_claims_that_nobody_settles_do_not_grow(
    queue, traces, monkeypatch
):
    monkeypatch.setattr("pywheel.observe.opentelemetry._UNSETTLED", 10)
    queue.put("t")
    [job] = queue.reserve("t")
    for claim in range(100):
        with traces.listener.handling(job._replace(claims=claim)):
            pass
    assert len(traces.listener._ended) == 10
    queue.events.emit(LeaseLost(job._replace(claims=99)))
    settle = traces.span("ack t")
    assert (settle.status.status_code, settle.attributes["error.type"]) == (StatusCode.ERROR, "lease_lost")


@pytest.mark.parametrize("step", [-60, 3600])
def test_durations_are_the_time_that_passed_though_the_clock_was_set(queue, traces, monkeypatch, step):
    clock = SimpleNamespace(wall=10**18, passed=0)

    def pass_a_second():
        clock.wall += step * 10**9
        clock.passed += 10**9

    times = SimpleNamespace(time_ns=lambda: clock.wall, monotonic_ns=lambda: clock.passed)
    monkeypatch.setattr("pywheel.observe.opentelemetry.time", times)
    with traces.listener.sending((queue.job("t"),)):
        pass_a_second()
    queue.put("t")
    [job] = queue.reserve("t")
    with traces.listener.handling(job):
        pass_a_second()
    pass_a_second()
    queue.events.emit(JobEnded(job, Outcome.DONE, State.DONE, 1.0, None))
    took = {}
    for name in ("messaging.process.duration", "messaging.client.operation.duration"):
        for point in traces.points(name):
            took[point.attributes["messaging.operation.name"]] = point.sum
    assert took == {"send": 1.0, "process": 1.0, "ack": 1.0}
    ack = traces.span("ack t")
    assert ack.end_time - ack.start_time == step * 10**9


def test_metrics_have_the_names_of_the_conventions_and_bounded_topics():
    traces = Traces(topics=2)
    with JobQueue("memory:", listeners=[traces.listener]) as queue:
        for n in range(4):
            queue.handler(f"t{n}")(lambda job: None)
        handled(queue, *[queue.put(f"t{n}") for n in range(4)])
    duration = "messaging.client.operation.duration"
    for name, field, wanted in (
        (SENT, "value", {}),
        ("messaging.client.consumed.messages", "value", {}),
        ("messaging.process.duration", "count", {}),
        ("pywheel.job.lateness", "count", {}),
        *((duration, "count", {"messaging.operation.name": operation}) for operation in ("send", "ack")),
    ):
        points = [point for point in traces.points(name) if wanted.items() <= point.attributes.items()]
        found = {point.attributes["messaging.destination.name"]: getattr(point, field) for point in points}
        assert found == {"t0": 1, "t1": 1, "_others": 2}
        assert not any("messaging.message.id" in point.attributes for point in points)


class Fails(SpanProcessor):
    def on_start(self, span, parent_context=None):
        raise ValueError("the processor is broken")

    on_end = on_start


@pytest.mark.parametrize(
    ("listener", "said"),
    [(lambda: Traces([Fails()]).listener, "the processor is broken"), (OpenTelemetry, "")],
    ids=["a processor that fails", "no SDK"],
)
def test_a_processor_that_fails_or_is_not_there_costs_no_job(caplog, listener, said):
    seen = []
    with JobQueue("memory:", listeners=[listener()]) as queue:
        queue.handler("t")(seen.append)
        id = queue.put("t")
        assert queue.get(id).headers == {}
        handled(queue, id)
        with pytest.raises(BadOption, match="one tracer"):
            queue.events.listen(Traces().listener)
    assert len(seen) == 1
    assert said in caplog.text


@pytest.mark.parametrize("work", [run_due, lambda queue: handled(queue, *[job.id for job in queue.jobs.list()])])
def test_what_a_handler_puts_is_a_child_of_its_span_by_a_worker_and_by_run_due(queue, traces, work):
    queue.handler("first")(lambda job: queue.put("second"))
    queue.put("first")
    work(queue)
    process = traces.span("process first").context
    assert (traces.span("send second").parent, traces.span("ack first").parent) == (process, process)


# ---- handlers in processes of their own -----------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path, monkeypatch):
    from tests.observe import traced_shop

    monkeypatch.setenv("SHOP_STORE", url := f"sqlite:///{tmp_path}/jobs.db")
    traced_shop.queue.use(url)
    traced_shop.traces.exporter.clear()
    yield traced_shop
    traced_shop.queue.use("memory:")


@pytest.mark.stress
def test_an_isolated_handler_runs_in_the_context_of_its_span(shop, tmp_path):
    token = context.attach(baggage.set_baggage("shop", "7"))
    try:
        id = shop.queue.put("isolated", {"deed": "note", "file": str(tmp_path / "seen")})
    finally:
        context.detach(token)
    handled(shop.queue, id)
    process = shop.traces.span("process isolated")
    assert (tmp_path / "seen").read_text() == f"{process.context.trace_id} {process.context.span_id} 7"


@pytest.mark.stress
def test_an_isolated_handler_that_fails_or_is_killed_has_a_span_that_says_so(shop):
    for deed, error, said in (
        ("fail", "KeyError", "no such order"),
        ("hang", "pywheel.worker.executors.processes.HandlerTimeout", "killed after its ttr"),
    ):
        shop.traces.exporter.clear()
        handled(shop.queue, shop.queue.put("isolated", {"deed": deed}))
        process = shop.traces.span("process isolated")
        assert process.attributes["error.type"] == error
        assert said in process.status.description
        assert shop.traces.span("nack isolated").parent == process.context
