"""A program whose isolated handlers run in traces."""

import os
import time
from pathlib import Path

from opentelemetry import baggage, trace

from pywheel import Fixed, JobQueue
from tests.observe.traces import Traces

traces = Traces()
queue = JobQueue(os.environ.get("SHOP_STORE", "memory:"), listeners=[traces.listener])


@queue.handler("isolated", isolate=True, retry=Fixed("1ms", attempts=1), ttr=2)
def isolated(job):
    said = job.json()
    if said["deed"] == "hang":
        time.sleep(60)
    if said["deed"] == "fail":
        raise KeyError("no such order")
    context = trace.get_current_span().get_span_context()
    Path(said["file"]).write_text(f"{context.trace_id} {context.span_id} {baggage.get_baggage('shop')}")
