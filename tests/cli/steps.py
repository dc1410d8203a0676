"""`pywheel work --reload` with a program that tells its step, and waits there until the test lets it go on."""

import os
import signal

from pywheel import JobQueue
from tests.cli.running import Running
from tests.jobs.waiting import LIMIT, alive, until
from tests.worker.noted import Noted

PROGRAM = """
import os, time
from pathlib import Path
from pywheel import JobQueue

HERE = Path(__file__).parent
NOTES = os.open(HERE / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def note(word, *facts):
    os.write(NOTES, f"{' '.join(map(str, (word, os.getpid(), *facts)))}\\n".encode())

def at(step, *facts):
    note(step, *facts)
    while (HERE / f"hold-{step}").exists():
        time.sleep(0.005)

at("import")
queue = JobQueue(f"sqlite:///{HERE}/jobs.db")

@queue.handler("t", ttr="1h", concurrency=1)
def handle(job):
    at("handler", job.id, job.attempt)
"""


class Stepped:
    """A folder with a program and a store, and `pywheel work` on it."""

    def __init__(self, folder):
        self.folder = folder
        self.source = folder / "shop.py"
        self.source.write_text(PROGRAM)
        self.queue = JobQueue(f"sqlite:///{folder}/jobs.db")
        self._saved = 0

    def start(self, *options):
        self.processes = 2 if "--processes" in options else 1
        # The tests themselves may run under nohup, or in the background of a shell.
        before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGQUIT)}
        self.command = Running(["work", "shop:queue", "--reload", *options], self.folder, {})
        self.process, self.send, self.says = self.command.process, self.command.send, self.command.says
        for number, handler in before.items():
            signal.signal(number, handler)

    def save(self):
        """Change the program's source, as an editor does."""
        self._saved += 1
        os.utime(self.source, (self._saved, self._saved))

    def hold(self, step):
        (self.folder / f"hold-{step}").touch()

    def go(self):
        """Let the waiting program go on."""
        for hold in self.folder.glob("hold-*"):
            hold.unlink()

    def noted(self, step):
        return Noted(self.folder / "notes").lines(step)

    def reached(self, step, times=1):
        """Wait until a step was reached so often."""
        until(lambda: len(self.noted(step)) >= times or self.process.poll() is not None)
        assert len(self.noted(step)) >= times, self.command.err

    def has_said(self, text):
        return text in self.command.err

    def working(self):
        """Wait until all are at work."""
        self.says("working on")
        self.reached("import", self.processes)  # another one may begin after the first job has ended
        id = self.queue.put("t")
        until(lambda: not self.queue.get(id).state.live)

    def busy(self):
        """Return a job that is held in its handler."""
        self.hold("handler")
        before = len(self.noted("handler"))
        id = self.queue.put("t")
        self.reached("handler", before + 1)
        return id

    def starts(self):
        """Return how often the program was imported."""
        return len(self.noted("import"))

    def pids(self):
        return {int(line[0]) for line in self.noted("import")}

    def ended(self):
        """Wait until the command and all its workers have ended; return the exit code."""
        code = self.process.wait(LIMIT)
        until(lambda: not any(map(alive, self.pids())))
        return code

    def close(self):
        self.process.kill()
        self.process.wait()
        for pid in filter(alive, self.pids()):
            os.kill(pid, signal.SIGKILL)
        self.queue.close()
        print(self.command.err, *map(self.noted, ("import", "handler")), sep="\n")
