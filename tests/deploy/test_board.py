"""The Grafana board and the rules ask for metrics that exist."""

import itertools
import json
import re
from pathlib import Path

from pywheel.events import JobsClaimed
from pywheel.observe.prometheus import PrometheusMetrics
from pywheel.server.metrics import GAUGES
from tests.deploy.tools import DEPLOY

BOARD = json.loads((DEPLOY / "grafana" / "pywheel.json").read_text())
PANELS = BOARD["panels"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
RULES = (DEPLOY / "prometheus" / "pywheel.rules.yml").read_text()


def exposed():
    """The names of all series that there are."""
    metrics = PrometheusMetrics()
    metrics(JobsClaimed("t", 1))
    names = {name for name, _, _ in GAUGES.values()}
    for family in metrics.describe():
        ends = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(family.type, [""])
        names |= {family.name + end for end in ends}
    return names


def asked(text):
    return set(re.findall(r"\bpywheel_\w+", text))


def test_board_and_rules_ask_for_metrics_that_there_are_and_the_documentation_names_every_one():
    names = asked(" ".join(EXPRESSIONS)) | asked(json.dumps(BOARD["templating"]))
    assert len(names) > 20
    assert names | asked(RULES) <= exposed()
    text = (DEPLOY.parent / "docs" / "telemetry.md").read_text()
    assert asked(text) == {name for name in exposed() if not name.endswith(("_sum", "_count"))}


def test_every_panel_says_what_it_shows_and_lies_beside_the_others():
    taken = set()
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert {one["datasource"]["uid"] for one in (panel, *panel["targets"])} == {"${datasource}"}
        x, y, width, height = (panel["gridPos"][name] for name in "xywh")
        cells = set(itertools.product(range(x, x + width), range(y, y + height)))
        assert x + width <= 24
        assert not cells & taken
        taken |= cells
    assert len({panel["id"] for panel in PANELS}) == len({panel["title"] for panel in PANELS}) == len(PANELS)


def test_what_is_deployed_has_no_tabs_and_ends_with_a_line():
    for file in filter(Path.is_file, DEPLOY.rglob("*")):
        text = file.read_text(encoding="utf-8")
        assert ("\t" in text, text[-1]) == (False, "\n"), file
