"""Log lines as JSON objects."""

import io
import json
import logging
import re

import pytest
from opentelemetry import trace

from pywheel import BadOption, JobQueue
from pywheel.events import JobEnded
from pywheel.jobs import Job, Outcome, State
from pywheel.jobs.handler import current_job
from pywheel.observe import log, logs
from tests.jobs.waiting import finished, working
from tests.observe.traces import Traces

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
JOB = Job(7, "mail", b"", 0, 0, State.RUNNING, key="a\nb", attempt=2, headers={"traceparent": TRACE})


@pytest.fixture
def written():
    """What is written as JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonLines())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield lambda: [json.loads(line, parse_constant=pytest.fail) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(level)


def test_an_event_is_one_object_with_its_fields_by_name(written):
    log(JobEnded(JOB, Outcome.FAILED, State.DELAYED, 0.1, 'ValueError: "ü"\nno'))
    [line] = written()
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line.pop("process") > 0
    assert line.pop("message").startswith("attempt_failed job=7")
    assert line == {
        "level": "warning", "logger": "pywheel.jobs", "event": "attempt_failed", "job": 7, "topic": "mail",
        "key": "a\nb", "attempt": 2, "trace_id": TRACE[3:35], "error_text": 'ValueError: "ü"\nno',
    }  # fmt: skip


def test_what_a_handler_logs_says_whose_it_is(written):
    with JobQueue("memory:") as queue:
        queue.handler("mail")(lambda job: logging.getLogger("shop").info("sent to %s", "me", extra={"order": 5}))
        id = queue.put("mail", traceparent=TRACE)
        with working(queue):
            finished(queue, id)
    [line] = [line for line in written() if line["logger"] == "shop"]
    about = {"message": "sent to me", "job": id, "topic": "mail", "attempt": 1, "trace_id": TRACE[3:35], "order": 5}
    assert about.items() <= line.items()


def test_inside_a_span_its_own_ids_count(written):
    with Traces().tracer.start_as_current_span("span"):
        context = trace.get_current_span().get_span_context()
        logging.getLogger("shop").info("here")
    [line] = written()
    assert (line["trace_id"], line["span_id"]) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")


def test_an_exception_is_in_the_line(written):
    try:
        {}["x"]
    except KeyError:
        logging.getLogger("shop").exception("oh")
    [line] = written()
    assert (line["level"], line["error_type"]) == ("error", "KeyError")
    assert line["stack"].startswith("Traceback")


class Wordless:
    def __repr__(self):
        raise ValueError("no words")


ENDLESS = {}
ENDLESS["again"] = ENDLESS


@pytest.mark.parametrize(
    "value",
    [object(), b"\xff", "\udcff", float("inf"), [float("nan")], {"a": {1, 2}}, {(1, 2): 3}, ENDLESS, Wordless()],
)
def test_whatever_is_logged_is_a_line_in_ascii(written, value):
    logging.getLogger("shop").info("x\r\ny", extra={"value": value, "time": "mine", "order": {"id": 5}})
    [line] = written()
    assert line["message"] == "x\r\ny"
    assert line["order"] == {"id": 5}
    assert line["value"]
    assert line["time"] != "mine"
    assert current_job.get() is None
    assert "job" not in line


def test_the_fields_of_a_program_are_not_those_of_an_event(written):
    logging.getLogger("shop").info("sent", extra={"fields": {"message": "mine", "time": "never", "order": 5}})
    [line] = written()
    assert line["message"] == "sent"
    assert line["time"].endswith("Z")
    assert "order" not in line
    assert line["fields"] == {"message": "mine", "time": "never", "order": 5}


def test_the_form_is_told_to_other_processes_and_another_form_is_refused(written):
    assert logs.present() == ("json", logging.INFO)
    with pytest.raises(BadOption, match="text or json"):
        logs.begin("xml")
