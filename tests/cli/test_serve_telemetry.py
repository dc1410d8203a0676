"""``pywheel serve`` tells metrics, and logs for machines."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.cli.test_processes import POSIX, seen
from tests.isolated.child import environment
from tests.jobs.waiting import until

pytestmark = pytest.mark.stress


@POSIX
def test_the_service_tells_the_gauges_of_its_store_and_what_its_clients_put(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    command = [sys.executable, "-m", "pywheel.cli", "serve", "--open", "--port", "0", "--store", url]
    process = subprocess.Popen(
        [*command, "--log-format", "json"], env=environment(), stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        err = seen(process.stderr)
        until(lambda: any("serving" in line for line in err))
        [address] = re.findall(r"on (http://127\.0\.0\.1:\d+) ", "".join(err))
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{address}/v1/jobs", b'{"topic": "mail", "delay": "30m"}', headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status == 201
        scrape = urllib.request.Request(f"{address}/metrics", headers={"accept": "application/openmetrics-text"})

        def scraped():
            with urllib.request.urlopen(scrape, timeout=30) as answer:
                assert answer.headers["content-type"].startswith("application/openmetrics-text")
                return answer.read().decode()

        assert 'pywheel_jobs{state="delayed",topic="mail"} 1.0' in scraped()
        until(lambda: 'pywheel_jobs_put_total{topic="mail"} 1.0' in scraped())  # listeners are told after the client
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert all(json.loads(line)["message"] for line in list(err))
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
