"""Jobs of every kind for a long time, on one file: two workers that are replaced every minute, and one that stays.

It prints a line a minute, and in the end a verdict: whether every job was handled, and which figures have grown.

usage: python -m tests.soak SECONDS [RATE]
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from pywheel import JobQueue
from tests.isolated.child import environment
from tests.soak.wire import LINE, TICK

MINUTE = 60.0
KEEP = "2m"  # so that pruning keeps up with the puts within a short soak, too
WARM = 4  # minutes before anything is compared: until the first jobs were pruned, and the file has its size
ROOM = 16 << 20  # bytes by which a process may grow, from the first third of the rest to the last
PART = 1.25  # times as large may the file become, and
LATER = 500.0  # ms later the jobs: what else the machine does comes and goes
SCHEDULED = {"second", "five", "pywheel.schedules"}  # topics
PATIENCE = 300.0  # seconds until all is done


class Ear:
    """Takes in what handlers tell."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._lates = []
        self._handled = bytearray()
        self.again = self.ticks = 0
        """How many were handled once more, and how often a schedule's time came."""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            number, late = LINE.unpack(self._socket.recv(LINE.size))
            if number <= 0:
                self.ticks += number == TICK
                continue
            if late >= 0:
                self._lates.append(late)
            if number >= len(self._handled):
                self._handled.extend(bytes(number + 1))
            self.again += self._handled[number]
            self._handled[number] = 1

    def lates(self):
        """Return how late jobs began since the last call, in order."""
        found, self._lates = self._lates, []
        return sorted(found)

    def count(self):
        return sum(self._handled)

    def missing(self, last, cancelled):
        """Return the numbers up to a last one of jobs that nobody handled."""
        return [
            n for n in range(1, last + 1) if n not in cancelled and not (n < len(self._handled) and self._handled[n])
        ]


class Soak:
    """The processes, and what is seen of them each minute."""

    def __init__(self, folder, seconds, rate):
        self.file = folder / "jobs.db"
        self.url = f"sqlite:///{self.file}"
        self.ear = Ear(folder / "ear")
        self._environment = environment(SOAK_STORE=self.url, SOAK_EAR=str(folder / "ear"))
        self._log = (folder / "log").open("ab")
        self.rows = []
        work = ["-m", "pywheel.cli", "work", "tests.soak.shop:queue", "--keep", KEEP]
        self.processes = {
            "supervisor": self._start(*work, "--processes", "2"),
            "steady": self._start(*work),
            "producer": self._start("-m", "tests.soak.producer", str(rate), str(seconds), stdout=subprocess.PIPE),
        }

    def _start(self, *arguments, stdout=None):
        stdout = stdout or self._log
        command = [sys.executable, *arguments]
        return subprocess.Popen(command, env=self._environment, stdout=stdout, stderr=self._log)

    def watch(self, seconds):
        """Reload each minute, and note what there is."""
        begin = time.monotonic()
        print(
            "minute  jobs/s  late p50    p99    max ms   file  wal MB   steady  producer  supervisor  workers MB",
            flush=True,
        )
        for minute in range(1, max(int(seconds // MINUTE), 1) + 1):
            before = self.ear.count()
            time.sleep(max(begin + minute * MINUTE - time.monotonic(), 0))
            self._note(minute, self.ear.count() - before)
            for name, process in self.processes.items():
                assert process.poll() is None or name == "producer", f"{name} has ended"
            self.processes["supervisor"].send_signal(signal.SIGHUP)

    def _note(self, minute, handled):
        lates = self.ear.lates() or [0]
        at = {part: lates[min(int(len(lates) * part), len(lates) - 1)] for part in (0.5, 0.99, 1)}
        held = {name: resident(process.pid) for name, process in self.processes.items()}
        workers = [resident(pid) for pid in children(self.processes["supervisor"].pid)]
        row = {"late": at[0.99], "file": size(self.file), **held}
        self.rows.append(row)
        wal = size(self.file.with_name("jobs.db-wal"))
        megabytes = [row["file"], wal, held["steady"], held["producer"], held["supervisor"], max(workers, default=0)]
        print(
            f"{minute:6} {handled / MINUTE:7.0f} {at[0.5]:9.0f} {at[0.99]:6.0f} {at[1]:9.0f} ",
            *(f"{each / 2**20:8.1f}" for each in megabytes),
            flush=True,
        )

    def verdict(self):
        """Wait until all is done; return what is wrong."""
        said, _ = self.processes["producer"].communicate(timeout=PATIENCE)
        last, *cancelled = map(int, said.split() or [b"0"])
        wrong = [] if last else ["the producer failed: see the log"]
        with JobQueue(self.url) as queue:
            end = time.monotonic() + PATIENCE
            while (left := self._left(queue)) and time.monotonic() < end:
                time.sleep(0.5)
            wrong += [f"left are {left}"] if left else []
            for process in (self.processes["supervisor"], self.processes["steady"]):
                process.send_signal(signal.SIGTERM)
                process.wait(PATIENCE)
            dead = sum(count.dead for count in queue.topics.counts().values())
            wrong += [f"{dead} jobs are dead"] if dead else []
            wrong += queue.store.verify()
        missing = self.ear.missing(last, set(cancelled))
        wrong += [f"{len(missing)} jobs were never handled: {missing[:5]}"] if missing else []
        print(f"{last} jobs, {len(cancelled)} cancelled, {self.ear.again} handled again, {self.ear.ticks} ticks")
        return wrong + self._grown()

    @staticmethod
    def _left(queue):
        """Return the topics with live jobs, except those that schedules have put ahead."""
        counts = {name: count.delayed + count.running for name, count in queue.topics.counts().items()}
        return {name: live for name, live in counts.items() if live and name not in SCHEDULED}

    def _grown(self):
        rows = self.rows[WARM:]
        third = len(rows) // 3
        if not third:
            return []
        found = []
        for name in rows[0]:
            first, last = (statistics.median(row[name] for row in part) for part in (rows[:third], rows[-third:]))
            most = {"late": first + LATER, "file": first * PART}.get(name, first + ROOM)
            if last > most:
                found.append(f"{name} has grown from {first:.0f} to {last:.0f}")
        return found

    def end(self):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


def resident(pid):
    """Return the memory of a process, 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def size(path):
    return path.stat().st_size if path.exists() else 0


def main():
    seconds, rate = float(sys.argv[1]), float((sys.argv[2:] or ["500"])[0])
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), seconds, rate)
        try:
            soak.watch(seconds)
            wrong = soak.verdict()
        finally:
            soak.end()
        if wrong:
            print((Path(folder) / "log").read_text(errors="replace")[-5000:])
    print("\n".join(wrong) or "all was handled, and nothing has grown")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
