"""The program that measures reads runs, with a few jobs. What it measures is no matter of tests."""

import sys

import pytest

from benchmarks.reads import __main__ as program
from pywheel.jobs.queries import CountJobs
from pywheel.stores import open


def test_every_read_of_a_store_that_it_fills_becomes_a_line(monkeypatch, tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/jobs.db"
    monkeypatch.setattr(program, "SECONDS", 0.0)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--url", url, "--jobs", "3000", "--topics", "30"])
    program.main()
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("|")]) > 90
    with open(url) as store:
        assert store.verify() == []
        assert {name for name, number in store.ask(CountJobs())["big"]._asdict().items() if number} == {
            *("delayed", "running", "done", "dead", "cancelled")
        }


def test_another_run_reads_what_is_there(monkeypatch, tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/jobs.db"
    arguments = ["benchmarks", "--url", url, "--jobs", "2000", "--topics", "20", "--only", "counts"]
    monkeypatch.setattr(program, "SECONDS", 0.0)
    monkeypatch.setattr(sys, "argv", arguments)
    for _ in range(2):
        program.main()
        assert "2200 jobs, 20 topics" in capsys.readouterr().out


@pytest.mark.parametrize("store", ["postgres", "mysql", "redis"])
def test_a_server_is_measured_with_what_it_takes_itself(monkeypatch, capsys, store):
    monkeypatch.setattr(program, "SECONDS", 0.0)
    arguments = ["benchmarks", "--stores", store, "--jobs", "2000", "--topics", "20", "--only", "next_dues"]
    monkeypatch.setattr(sys, "argv", arguments)
    program.main()
    captured = capsys.readouterr()
    if "is left out" in captured.err:
        pytest.skip(f"{store} is not there")
    assert "| next_dues | 20 |" in captured.out
