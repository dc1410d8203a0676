"""The programs in examples/ run, each in a process of its own, and print what their comments say."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.implementations import CORES
from tests.isolated.child import environment

pytestmark = pytest.mark.stress

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NO_UVLOOP = pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed")

SHORT = {
    "echo_server.py": ["--connections", "200", "--timeout", "0.3", "--packets", "2"],
    "chat_server.py": ["--timeout", "4"],
    "heartbeats.py": ["--members", "2000", "--timeout", "0.3", "--seconds", "0.6"],
    "auction.py": ["--speed", "60", "--bids", "4"],
    "poller.py": ["--seconds", "0.5", "--interval", "0.1"],
    "trace_replay.py": ["--seconds", "0.5"],
    **({} if os.name == "nt" else {"journal_store.py": ["--jobs", "5"]}),
}


def run(name, *arguments, core=CORES[0]):
    result = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        env=environment(PYWHEEL_PURE="1" if core == "pure" else "", PYWHEEL_REQUIRE_NATIVE=""),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def number_before(words, output):
    """Return the number that the program prints before these words."""
    return int(re.search(rf"(\d+) +{words}", output)[1])


@pytest.mark.parametrize("name", SHORT)
def test_an_example_says_what_it_is_and_takes(name):
    output = run(name, "--help")
    assert "usage" in output
    assert "default" in output


@pytest.mark.parametrize("loop", [None, "EventLoop", pytest.param("uvloop", marks=NO_UVLOOP)])
def test_the_echo_server_closes_every_connection_that_falls_silent_and_none_early_on_each_loop(loop):
    output = run("echo_server.py", *SHORT["echo_server.py"], *(["--loop", loop] if loop else []))
    assert number_before("connected", output) == 200
    assert number_before("were closed as idle", output) == 200
    assert number_before("of them too early", output) == 0
    assert number_before("timers left", output) == 0


def test_the_chat_server_drops_who_gives_no_name_or_answers_no_ping_and_nobody_else():
    output = run("chat_server.py", *SHORT["chat_server.py"])
    told = ["ann came", "ann: hello", "bob came", "somebody gave no name in time", "bob did not answer", "ann left"]
    assert sorted(output.splitlines()) == sorted([*told, "0 timers left"])
    assert output.index("bob did not answer") < output.index("ann left")


def test_the_failure_detector_finds_the_dead():
    output = run("heartbeats.py", *SHORT["heartbeats.py"])
    assert "20 of the 20 dead were found" in output


def test_the_auction_ends_once_and_each_bid_adds_to_the_countdown():
    output = run("auction.py", *SHORT["auction.py"])
    *_, last = output.splitlines()
    assert output.count("sold to") == 1
    bids = output.count("bids")
    assert bids >= 1
    assert float(last.split()[0]) >= 30 + 5 * bids


def test_the_poller_keeps_to_its_rate_though_a_source_fails():
    output = run("poller.py", *SHORT["poller.py"])
    done = number_before("answered", output) + number_before("failed", output)
    assert number_before("answered", output) > 0
    assert number_before("failed", output) > 0
    assert done <= number_before("were allowed", output) + 1  # it is rounded
    assert number_before("left out", output) > 0


@pytest.mark.parametrize("core", CORES)
def test_each_driver_replays_the_trace_and_none_is_early(core):
    output = run("trace_replay.py", *SHORT["trace_replay.py"], core=core)
    lines = output.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["ThreadTimers", "AsyncTimers", "Timers"]
    assert all(line.endswith("early: 0") for line in lines)
    assert all(number_before("cancelled", line) > 0 for line in lines)
