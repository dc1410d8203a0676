"""The Grafana board and the rules ask for metrics that exist."""

import json
import re
from pathlib import Path

import pytest

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


def test_the_board_asks_for_metrics_that_there_are():
    names = asked(" ".join(EXPRESSIONS)) | asked(json.dumps(BOARD["templating"]))
    assert names <= exposed()
    assert len(names) > 20


def test_the_rules_ask_for_metrics_that_there_are():
    assert asked(RULES) <= exposed()


def test_the_documentation_names_every_metric_and_no_other():
    text = (DEPLOY.parent / "docs" / "telemetry.md").read_text()
    assert asked(text) == exposed() - {name for name in exposed() if name.endswith(("_bucket", "_sum", "_count"))} | {
        name for name in exposed() if name.endswith("_bucket")
    }


def test_every_panel_says_what_it_shows_and_lies_beside_the_others():
    places = set()
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & places
        assert max(x for x, _ in cells) < 24
        places |= cells
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)


def test_the_board_names_no_data_source_of_somebody():
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    assert {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]} == {"${datasource}"}


@pytest.mark.parametrize("file", sorted(DEPLOY.rglob("*")), ids=lambda file: file.relative_to(DEPLOY).as_posix())
def test_what_is_deployed_has_no_tabs_and_ends_with_a_line(file: Path):
    if file.is_file():
        text = file.read_text(encoding="utf-8")
        assert "\t" not in text
        assert text.endswith("\n")
