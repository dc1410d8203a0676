"""Other processes on a store, for tests."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.isolated.child import environment

as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may change users")
CHILD = str(Path(__file__).with_name("store_child.py"))


def let_in(folder):
    """Let every user into a folder, and those that it is in."""
    for each in (folder, *folder.parents[:-2]):
        each.chmod(each.stat().st_mode | 0o055)


class Process:
    """Another process: each call of a method is an order to it, and returns its answer."""

    def __init__(self, path):
        self.running = subprocess.Popen(
            [sys.executable, CHILD, f"sqlite:///{path}"],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __getattr__(self, name):
        def order(*arguments):
            self.tell(name, *arguments)
            return self.answer()

        return order

    def tell(self, *words):
        """Give an order and do not wait for the answer."""
        print(*words, file=self.running.stdin, flush=True)

    def answer(self):
        return json.loads(self.running.stdout.readline())

    def stop(self):
        self.running.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.running.send_signal(signal.SIGCONT)

    def kill(self):
        self.running.kill()
        self.running.wait(60)


@contextlib.contextmanager
def process(path):
    """Run another process on the store at `path`."""
    other = Process(path)
    try:
        yield other
    finally:
        other.kill()
        other.running.stdin.close()
        other.running.stdout.close()
