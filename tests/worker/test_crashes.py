"""A worker process that a signal ends, on each kind of store. The ledger tests cover kills and stops."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pywheel import JobQueue
from pywheel.jobs import State
from tests.isolated.child import environment
from tests.jobs.waiting import until
from tests.worker.noted import Noted

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]


@pytest.mark.parametrize(
    ("number", "grace"), [(signal.SIGTERM, 30), (signal.SIGTERM, 0.1), (signal.SIGINT, 0.1)], ids=str
)
def test_a_signal_lets_handlers_finish_within_the_grace_and_what_has_not_goes_back_unspent(
    shared_url, tmp_path, number, grace
):
    ledger = Noted(tmp_path / "ledger.txt")
    with JobQueue(shared_url) as queue:
        running, waiting = queue.put("t"), queue.put("t", delay=0.05)
        command = [
            sys.executable,
            str(Path(__file__).with_name("crash_worker.py")),
            shared_url,
            ledger.path,
            str(grace),
        ]
        worker = subprocess.Popen(command, env=environment())
        try:
            until(lambda: [str(running)] in ledger.lines("start"))
            worker.send_signal(number)
            if grace > 1:
                until(lambda: ledger.lines("drains"))
                Path(f"{ledger.path}.go").touch()
            assert worker.wait(60) == 0
        finally:
            worker.kill()
            worker.wait()
        assert ledger.lines("stopped") == [[]]
        found = [(job.state, job.attempt) for job in map(queue.get, (running, waiting))]
    assert found == [(State.DONE, 1) if grace > 1 else (State.DELAYED, 0), (State.DELAYED, 0)]
