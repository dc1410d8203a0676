"""The program that measures stores runs, with a few jobs. What it measures is no matter of tests."""

import sys

import pytest

from benchmarks import kept
from benchmarks.report.stores.page import page
from benchmarks.stores import __main__ as program
from benchmarks.stores.places import PLACES

pytestmark = pytest.mark.stress  # it starts processes, and asks git for the commit


def measure(monkeypatch, tmp_path, store, *names):
    path = tmp_path / "stores.json"
    arguments = ["--part", "1000", "--rounds", "1", "--only", ",".join(names), "--stores", store, "--kept", str(path)]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    program.main()
    return kept.read(path)


def test_each_measure_of_a_file_becomes_a_line_of_the_page(monkeypatch, tmp_path):
    names = ["one", "threads", "tasks", "many", "drain5", "keys", "aputs64", "claims", "bytes"]
    found = measure(monkeypatch, tmp_path, "sqlite", *names)
    results = found["results"]
    assert list(results) == names
    assert all(turns["sqlite"] for turns in results.values())
    assert "| `put` one by one, a second | 1, 1/1000 |" in page(found)


@pytest.mark.parametrize("store", ["postgres", "mysql", "redis"])
def test_each_measure_of_a_server_has_its_goal_on_the_page(monkeypatch, tmp_path, store):
    names = ["one", "threads", "many", "drain5", "keys", "claims"]
    found = measure(monkeypatch, tmp_path, store, *names)
    results = found["results"]
    if not results["one"]:
        pytest.skip(f"{store} is not there")
    assert list(results) == names
    assert all(name in PLACES for turns in results.values() for name in turns)
    assert ">= 0.85" in page(found)


def test_a_measure_that_there_is_not_is_refused(monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match="no such measure: ones"):
        measure(monkeypatch, tmp_path, "sqlite", "ones")
