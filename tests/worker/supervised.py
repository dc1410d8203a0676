"""A shop whose workers a supervisor keeps alive, as real processes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pywheel import JobQueue
from tests.isolated.child import environment
from tests.jobs.waiting import until
from tests.worker.noted import Noted
from tests.worker.test_isolation import alive

__all__ = ["Shop", "shop"]

HERE = Path(__file__).parent


class Shop:
    """A folder with a store, a ledger, and supervisors at work for them."""

    def __init__(self, folder):
        self.folder = folder
        self.queue = JobQueue(f"sqlite:///{folder}/jobs.db")
        self.processes = []
        self.errors = folder / "errors"

    def start(self, processes=2, target="supervised_shop:queue", **options):
        command = [sys.executable, str(HERE / "supervise.py"), target, str(processes), json.dumps(options)]
        with self.errors.open("w") as errors:
            process = subprocess.Popen(command, cwd=HERE, env=self.environment(), stderr=errors)
        self.processes.append(process)
        return process

    def environment(self):
        return environment(SHOP_FOLDER=str(self.folder), PYTHONDONTWRITEBYTECODE="1")

    def lines(self, word):
        return Noted(self.folder / "ledger").lines(word)

    def status(self, name):
        try:
            return json.loads((self.folder / "status").read_text())[name]
        except FileNotFoundError:
            return []

    def up(self, count=2):
        """Return the workers that are up, once there are `count` of them and no others."""
        until(lambda: len(self.status("up")) == len(self.status("all")) == count)
        return self.status("up")

    def said(self, text):
        return text in self.errors.read_text()

    def pids(self):
        return {int(pid) for [pid] in self.lines("import")} | {int(line[1]) for line in self.lines("start")}

    def started(self, id):
        return [line for line in self.lines("start") if int(line[0]) == id]

    def version(self, text):
        (self.folder / "version").write_text(text)

    def go(self):
        (self.folder / "go").touch()


@pytest.fixture
def shop(tmp_path):
    shop = Shop(tmp_path)
    yield shop
    shop.go()
    for process in shop.processes:
        process.kill()
        process.wait()
    for pid in filter(alive, shop.pids()):
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGKILL)
    shop.queue.close()
    print(shop.errors.read_text() if shop.errors.exists() else "")
