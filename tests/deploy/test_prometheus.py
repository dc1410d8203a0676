"""The rules and the board as promtool sees them, and a real Prometheus that scrapes a worker and an exporter."""

import contextlib
import json
import re

import pytest

from pywheel import Fixed, JobQueue
from pywheel.observe.endpoint import Endpoint
from tests.deploy.test_board import EXPRESSIONS
from tests.deploy.tools import DEPLOY, PROMTOOL, Prometheus, checked
from tests.jobs.waiting import finished, until, working
from tests.ports import reserved_ports
from tests.server.page.site import Site
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


def test_a_real_prometheus_scrapes_a_worker_and_an_exporter_and_its_alerts_fire(tmp_path):
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue, contextlib.ExitStack() as stack:
        exporter = Site(queue)
        stack.callback(exporter.stop)
        endpoint = Endpoint(queue.events, 0)
        stack.callback(endpoint.close)
        queue.handler("good")(lambda job: None)

        @queue.handler("bad", retry=Fixed("1ms", attempts=1))
        def fail(job):
            raise ValueError("no")

        worker = "{}:{}".format(*endpoint.address)
        configuration = CONFIGURATION.format(worker=worker, exporter=f"127.0.0.1:{exporter.port}")
        [port] = reserved_ports(1)
        run = contextlib.contextmanager(started)
        prometheus = stack.enter_context(run(Prometheus, configuration, RULES.read_text(), port))
        with working(queue):
            for id in [*(queue.put("good") for _ in range(5)), queue.put("bad")]:
                finished(queue, id)
            until(lambda: list(prometheus.query("up").values()) == [1.0, 1.0])
            for expression, value in (
                ('sum(pywheel_jobs_done_total{job="workers"})', 5.0),
                ('pywheel_jobs{topic="bad", state="dead", job="store"}', 1.0),
                ("pywheel_workers", 1.0),
            ):
                until(lambda wanted=value, asked=expression: wanted in prometheus.query(asked).values())
            [late] = prometheus.query(
                "histogram_quantile(0.99, sum by (le) (pywheel_job_lateness_seconds_bucket))"
            ).values()
            assert 0 < late < 60
        queue.put("nobody")
        until(lambda: prometheus.query('ALERTS{alertname="PywheelTopicWithoutWorker", topic="nobody"}'))
