"""The program that measures queues beside each other runs, with a few jobs. What it measures is no matter of tests."""

import shutil
import sys

import pytest

from benchmarks import kept
from benchmarks.queues import __main__ as program
from benchmarks.queues.catalogue import PEERS
from benchmarks.report.queues.page import page


def measure(monkeypatch, tmp_path, *arguments):
    path = tmp_path / "queues.json"
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--part", "100", "--rounds", "1", "--kept", str(path), *arguments])
    program.main()
    return kept.read(path)


ON_SERVERS = [pytest.param(f"pywheel-{name}", marks=pytest.mark.servers) for name in ("postgres", "mariadb", "redis")]


@pytest.mark.stress
@pytest.mark.parametrize("name", ["pywheel", *ON_SERVERS])
def test_each_of_our_stores_is_measured_as_a_queue(monkeypatch, tmp_path, name):
    peer = next(one for one in PEERS if one.name == name)
    if program.installed(peer) is None:
        pytest.skip(f"{name} cannot run here")
    found = measure(monkeypatch, tmp_path, "--only", name)
    [turn] = found["results"][name]
    ways = {"one", "tasks", "many"}
    assert set(turn) >= ways | {"nothing", "sleep1", "sleep10", "computes", "first", "p50", "p99", "max"}
    assert turn["early"] == turn["missing"] == 0
    assert f"| {peer.title} |" in page(found)


def test_a_handler_has_as_many_places_in_every_queue():
    places = {handler: {} for handler in ("nothing", "sleep10", "computes")}
    for peer in PEERS:
        for handler, sizes in places.items():
            processes, concurrency = peer.size(handler)
            sizes.setdefault(peer.kind, set()).add(processes * concurrency)
    assert places["sleep10"] == {"threads": {64}, "serial": {8}, "forks": {8}}
    assert places["computes"] == {"threads": {16}, "serial": {2}, "forks": {2}}


def test_without_node_its_queue_is_left_out_by_a_line_that_says_what_to_install(monkeypatch, capsys):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name == "node" else which(name, **more))
    assert program.installed(next(peer for peer in PEERS if peer.language == "node")) is None
    assert "Node.js, Redis is left out: node is missing: apt-get install nodejs npm" in capsys.readouterr().err


def test_a_queue_that_there_is_not_is_refused(monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match="no such peer: pywhel"):
        measure(monkeypatch, tmp_path, "--only", "pywhel")
