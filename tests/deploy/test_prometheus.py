"""The rules and the board as promtool sees them, and a real Prometheus that scrapes a worker and an exporter."""

import contextlib
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pywheel import Fixed, JobQueue
from pywheel.observe.endpoint import Endpoint
from pywheel.observe.tally import Labels
from pywheel.server.live import Reader
from pywheel.server.metrics import exposition
from tests.deploy.test_board import EXPRESSIONS
from tests.deploy.tools import DEPLOY, PROMTOOL, Prometheus, checked
from tests.jobs.waiting import finished, until, working
from tests.stores.servers import started

pytestmark = pytest.mark.servers
RULES = DEPLOY / "prometheus" / "pywheel.rules.yml"
CONFIGURATION = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: workers
    static_configs: [{{targets: ["{worker}"]}}]
  - job_name: store
    static_configs: [{{targets: ["{exporter}"]}}]
"""


def test_the_rules_are_sound_and_fire_when_they_should(tmp_path):
    assert "rules found" in checked(PROMTOOL, "check", "rules", str(RULES))
    assert "SUCCESS" in checked(PROMTOOL, "test", "rules", str(RULES.with_name("pywheel.rules.test.yml")))
    tested = RULES.with_name("pywheel.rules.test.yml").read_text()
    for alert in re.findall(r"alert: (\w+)", RULES.read_text()):
        assert len(re.findall(rf"alertname: {alert}\b", tested)) >= 2, f"{alert} is not tested"


@pytest.mark.parametrize("folder", ["prometheus", "compose"])
def test_the_configurations_are_sound(tmp_path, folder):
    checked(PROMTOOL, "check", "config", "--syntax-only", str(DEPLOY / folder / "prometheus.yml"))


def test_every_expression_of_the_board_is_promql(tmp_path):
    rules = [
        {"record": f"panel:{n}", "expr": expression.replace("$__rate_interval", "5m").replace("$topic", ".*")}
        for n, expression in enumerate(EXPRESSIONS)
    ]
    file = tmp_path / "board.yml"
    file.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    assert f"{len(rules)} rules found" in checked(PROMTOOL, "check", "rules", str(file))


@contextlib.contextmanager
def exporting(queue):
    """Serve what `exposition` says, as the service does."""
    reader, labels = Reader(lambda: queue.store), Labels()

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self):
            content_type, text = exposition(queue, reader.look(set()), labels, self.headers.get("Accept", ""))
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def test_a_real_prometheus_scrapes_a_worker_and_an_exporter_and_its_alerts_fire(tmp_path):
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue, exporting(queue) as exporter:
        endpoint = Endpoint(queue.events, 0)
        queue.handler("good")(lambda job: None)

        @queue.handler("bad", retry=Fixed("1ms", attempts=1))
        def fail(job):
            raise ValueError("no")

        worker = "{}:{}".format(*endpoint.address)
        configuration = CONFIGURATION.format(worker=worker, exporter=exporter)
        with contextlib.ExitStack() as stack:
            run = contextlib.contextmanager(started)
            prometheus = stack.enter_context(run(Prometheus, configuration, RULES.read_text(), free_port()))
            with working(queue):
                for id in [*(queue.put("good") for _ in range(5)), queue.put("bad")]:
                    finished(queue, id)
                until(lambda: set(prometheus.query("up").values()) == {1.0} and len(prometheus.query("up")) == 2)
                until(lambda: 5.0 in prometheus.query('sum(pywheel_jobs_done_total{job="workers"})').values())
                until(lambda: 1.0 in prometheus.query('pywheel_jobs{topic="bad", state="dead"}').values())
                until(lambda: 1.0 in prometheus.query("pywheel_workers").values())
                [late] = prometheus.query(
                    "histogram_quantile(0.99, sum by (le) (pywheel_job_lateness_seconds_bucket))"
                ).values()
                assert 0 < late < 60
            queue.put("nobody")
            pending = 'ALERTS{alertname="PywheelTopicWithoutWorker", topic="nobody"}'
            until(lambda: prometheus.query(pending))
        endpoint.close()
