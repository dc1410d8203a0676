"""A shop whose workers are real processes, with a supervisor or without one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pywheel import JobQueue
from tests.isolated.child import environment
from tests.jobs.waiting import alive, until
from tests.worker.noted import Noted

__all__ = ["Shop", "shop"]

HERE = Path(__file__).parent


class Shop(Noted):
    """A folder with a store, a ledger, and programs at work for them."""

    def __init__(self, folder):
        super().__init__(folder / "ledger")
        self.folder = folder
        self.queue = JobQueue(f"sqlite:///{folder}/jobs.db")
        self.processes = []
        self.errors = folder / "errors"

    def run(self, *arguments, cwd=None, **variables):
        """Start a program of Python."""
        command = [sys.executable, *map(str, arguments)]
        with self.errors.open("w") as errors:
            process = subprocess.Popen(command, cwd=cwd, env=self.environment(**variables), stderr=errors)
        self.processes.append(process)
        return process

    def start(self, processes=2, target="supervised_shop:queue", **options):
        """Start a supervisor."""
        return self.run(HERE / "supervise.py", target, processes, json.dumps(options), cwd=HERE)

    def environment(self, **variables):
        return environment(SHOP_FOLDER=str(self.folder), PYTHONDONTWRITEBYTECODE="1", **variables)

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

    def pids(self, id=None):
        """Return the processes in which handlers began, of all jobs or of one."""
        return {int(line[1]) for line in self.lines("start") if id in (None, int(line[0]))}

    def everybody(self):
        return {int(pid) for [pid] in self.lines("import")} | self.pids()

    def started(self, id):
        return [line for line in self.lines("start") if int(line[0]) == id]

    def version(self, text):
        (self.folder / "version").write_text(text)

    def go(self):
        (self.folder / "go").touch()

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def shop(tmp_path):
    shop = Shop(tmp_path)
    yield shop
    shop.go()
    shop.kill()
    for pid in filter(alive, shop.everybody()):
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGKILL)
    shop.queue.close()
    print(shop.errors.read_text() if shop.errors.exists() else "")
