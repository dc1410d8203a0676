"""A run without `stress` lets no test start a process, send a signal, sleep, or ask for a server."""

import os

import pytest

from tests.isolated.child import run

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="processes of POSIX")]

TESTS = """
import os, signal, subprocess, sys, threading, time
import pytest

@pytest.fixture
def child():
    subprocess.run([sys.executable, "-c", ""], check=True)

@pytest.fixture(scope="session")
def of_all():
    subprocess.run([sys.executable, "-c", ""], check=True)
    time.sleep(0.006)

@pytest.fixture(scope="session")
def redis_server():
    return 1

def test_process(child): pass
def test_fork():
    if not (pid := os.fork()):
        os._exit(0)
    os.waitpid(pid, 0)
def test_signal():
    signal.signal(signal.SIGUSR1, lambda *_: None)
    os.kill(os.getpid(), signal.SIGUSR1)
def test_sleep():
    thread = threading.Thread(target=time.sleep, args=[0])
    thread.start()
    thread.join()
    time.sleep(0.006)
def test_server(request): request.getfixturevalue("redis_server")

def test_of_all(of_all): pass
def test_looks():
    os.kill(os.getpid(), 0)
    time.sleep(0.005)
"""
WHY = {
    "test_process": "starts a process",
    "test_fork": "starts a process",
    "test_signal": "sends a signal",
    "test_sleep": "sleeps for 0.006 s",
    "test_server": "asks for a redis server",
}


def results(tmp_path, chosen):
    (tmp_path / "tests").mkdir(exist_ok=True)
    (tmp_path / "tests" / "test_all.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = stress\n")
    plain = ("-p", "no:cacheprovider", "-p", "no:randomly", "-q", "-rA", "-p", "tests.real_time", "-m", chosen)
    said = run("-m", "pytest", *plain, f"--rootdir={tmp_path}", str(tmp_path / "tests"), COLUMNS="300").stdout
    lines = [line.split(" ", 1) for line in said.splitlines() if line.startswith(("PASSED ", "ERROR "))]
    return {kind: {name.partition("::")[2] for word, name in lines if word == kind} for kind in ("PASSED", "ERROR")}


def test_what_belongs_elsewhere_fails_and_says_why(tmp_path):
    errors = dict(error.split(" - ", 1) for error in results(tmp_path, "not stress")["ERROR"])
    assert {name: why.split(": ")[-2] for name, why in errors.items()} == WHY


def test_a_run_of_stress_may_do_all_of_that(tmp_path):
    found = results(tmp_path, "not servers")
    assert found == {"PASSED": {*WHY, "test_of_all", "test_looks"}, "ERROR": set()}
