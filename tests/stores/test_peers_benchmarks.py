"""The program that measures queues beside each other runs, with a few jobs. What it measures is no matter of tests."""

import shutil
import sys

import pytest

from benchmarks.queues import __main__ as program
from benchmarks.queues.catalogue import PEERS
from benchmarks.queues.measures import MEASURES
from benchmarks.report.queues.goals import CONTENDERS, GOALS, Goal
from benchmarks.report.queues.page import page
from benchmarks.report.stores.results import read

VERSIONS = dict.fromkeys(PEERS, "1.0")
DRAIN = Goal("drain", "drain5", "drain", "ours", "theirs", 3)
LATE = Goal("late", "late", "p99", "ours", "theirs", 0.1, least=False)


def measure(monkeypatch, tmp_path, *arguments):
    kept = tmp_path / "kept.json"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--part", "100", "--rounds", "1", "--kept", str(kept), *arguments])
    program.main()
    return read(kept)


def turns(*values):
    return [{"part": 1, "load": 0.5, "fsync": 1e-4, "stolen": 0, "values": value} for value in values]


ON_SERVERS = [pytest.param(f"pywheel-{name}", marks=pytest.mark.servers) for name in ("postgres", "mariadb", "redis")]


@pytest.mark.stress
@pytest.mark.parametrize("peer", ["pywheel", *ON_SERVERS])
def test_each_of_our_stores_is_measured_as_a_queue(monkeypatch, tmp_path, peer):
    one = next(one for one in PEERS if one.name == peer)
    if program.installed(one) is None:
        pytest.skip(f"{peer} cannot run here")
    results = measure(monkeypatch, tmp_path, "--only", peer, "--measures", "puts,drain5")
    assert set(results["puts"][peer][0]["values"]) == {"one", "tasks", "many"}
    assert results["drain5"][peer][0]["values"]["drain"] > 0
    assert f"| {one.title} |" in page(results, {one: "1.0"})


@pytest.mark.stress
def test_what_is_measured_anew_replaces_that_alone(monkeypatch, tmp_path):
    first = measure(monkeypatch, tmp_path, "--only", "pywheel", "--measures", "drain5")
    then = measure(monkeypatch, tmp_path, "--only", "pywheel", "--measures", "late")
    assert then["drain5"] == first["drain5"]
    assert then["late"]["pywheel"][0]["values"]["early"] == 0


def test_a_queue_that_drains_slowly_is_not_given_the_long_backlog():
    backlog = next(measure for measure in MEASURES if measure.floor)
    slow, quick = PEERS[:2]
    found = {slow.name: turns({"drain": backlog.floor - 1}), quick.name: turns({"drain": backlog.floor})}
    assert not program.fast_enough(slow, backlog, {"drain5": found})
    assert program.fast_enough(quick, backlog, {"drain5": found})
    assert not program.fast_enough(PEERS[2], backlog, {"drain5": found})


def test_a_goal_counts_by_the_ratios_of_the_rounds():
    results = {"drain5": {"ours": turns(*({"drain": n} for n in (40, 10, 90))), "theirs": turns(*[{"drain": 10}] * 3)}}
    assert DRAIN.ratios(results) == [4, 1, 9]
    assert not DRAIN.missed([4, 1, 9])
    assert DRAIN.missed([4, 1, 2])


def test_a_goal_for_lateness_is_missed_by_more():
    assert LATE.missed([0.2, 0.2, 0.05])
    assert not LATE.missed([0.1])


def test_peers_with_different_rounds_are_compared_by_their_medians():
    results = {"drain5": {"ours": turns({"drain": 40}), "theirs": turns(*({"drain": n} for n in (9, 10, 90)))}}
    assert DRAIN.ratios(results) == [4]
    assert DRAIN.ratios({"drain5": {"ours": turns({"drain": 40})}}) == []


def test_the_page_says_which_goals_were_missed():
    found = {name: turns({"drain": 100}) for name in CONTENDERS}
    text = page({"drain5": found | {"pywheel-redis": turns({"drain": 350})}}, VERSIONS)
    assert "| drain of 5 000: pywheel on Redis / BullMQ for Node.js, Redis | >= 3.5 | 3.5 | met | 3.5 |" in text
    assert "| drain of 5 000: pywheel on PostgreSQL / procrastinate, PostgreSQL | >= 80 | **1** | missed | 1 |" in text


def test_goals_are_of_what_is_measured():
    assert {goal.measure for goal in GOALS} <= {measure.name for measure in MEASURES}
    assert {peer.name for peer in PEERS} >= set(CONTENDERS)


def test_without_node_its_queue_is_left_out_by_a_line_that_says_what_to_install(monkeypatch, capsys):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name == "node" else which(name, **more))
    assert program.installed(next(peer for peer in PEERS if peer.language == "node")) is None
    assert "Node.js, Redis is left out: node is missing: apt-get install nodejs npm" in capsys.readouterr().err


@pytest.mark.stress
@pytest.mark.parametrize(
    ("option", "message"),
    [(["--only", "pywhel"], "no such peer: pywhel"), (["--measures", "put"], "no such measure: put")],
)
def test_what_there_is_not_is_refused(monkeypatch, tmp_path, option, message):
    with pytest.raises(SystemExit, match=message):
        measure(monkeypatch, tmp_path, *option)
