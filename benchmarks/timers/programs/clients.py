"""Many clients in one process, on epoll: each connection has at most one request of its own under way.

python -m benchmarks.timers.programs.clients echo 8000 --server 4711 --rate 5000

prints, as JSON, requests a second and the server's processor time for each, when all clients ask as fast as they are
answered; then, with --rate, how long answers take when requests come at that rate, whether others are answered or not.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import select
import socket
import time
from collections import deque

from benchmarks.timers.programs.servers import allow_many_files

ASKS = {"echo": b"x" * 64, "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"}
WARM = 0.3  # seconds before it counts


class Clients:
    """The connections, and what is asked on them. They are used by their files' numbers, which is the quickest way."""

    def __init__(self, port: int, ask: bytes, connections: int) -> None:
        self.ask = ask
        self.poll = select.epoll()
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
        self.files = [client.fileno() for client in self.sockets]
        for client in self.sockets:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.poll.register(client, select.EPOLLIN)
        self.answer = self._size_of_an_answer()

    def _size_of_an_answer(self) -> int:
        """Ask on every connection once: the first request of one costs servers more than the others."""
        for file in self.files:
            os.write(file, self.ask)
        sizes = {len(os.read(file, 1 << 16)) for file in self.files}
        if len(sizes) != 1:
            raise AssertionError(f"answers of {sizes} bytes")
        return sizes.pop()

    def answered(self, seconds: float) -> list[int]:
        """Wait for at most `seconds`; return the files with an answer."""
        files = [file for file, _ in self.poll.poll(seconds)]
        for file in files:
            self.read(file)
        return files

    def read(self, file: int) -> None:
        """Read one answer, which is small enough to come in one piece."""
        came = len(os.read(file, self.answer))
        if came != self.answer:
            raise ConnectionError(f"an answer of {came} bytes instead of {self.answer}")


def flat_out(clients: Clients, seconds: float, server: int) -> dict[str, float]:
    """Let every client ask as soon as it is answered. All are answered when it returns."""
    for file in clients.files:
        os.write(file, clients.ask)
    _keep_asking(clients, WARM)
    used = processor_time(server)
    count, took = _keep_asking(clients, seconds)
    used = processor_time(server) - used
    for file in clients.files:
        clients.read(file)
    return {"a_second": count / took, "processor": used / count, "busy": used / took}


def _keep_asking(clients: Clients, seconds: float) -> tuple[int, float]:
    """Return the answers, and the seconds until the last. Little is done for each, to be ahead of any server."""
    ask, size, read, write, poll = clients.ask, clients.answer, os.read, os.write, clients.poll.poll
    count, begin = 0, time.perf_counter()
    while (took := time.perf_counter() - begin) < seconds:
        events = poll(1)
        for file, _ in events:
            if len(read(file, size)) != size:
                raise ConnectionError("an answer that is too short, or the server has closed a connection")
            write(file, ask)
        count += len(events)
    return count, took


def at_a_rate(clients: Clients, seconds: float, rate: float) -> dict[str, float]:
    """Ask at fixed times, in turns; an answer's time counts from when it should have been asked for."""
    free, waiting = deque(clients.files), deque[float]()
    due: dict[int, float] = {}
    took: list[float] = []
    total, warm = int(rate * (seconds + WARM)), int(rate * WARM)
    begin, asked = time.perf_counter(), 0
    while len(took) < total:
        now = time.perf_counter()
        while asked < total and begin + asked / rate <= now:
            waiting.append(begin + asked / rate)
            asked += 1
        while waiting and free:
            file = free.popleft()
            due[file] = waiting.popleft()
            os.write(file, clients.ask)
        for file in clients.answered(0):
            took.append(time.perf_counter() - due[file])
            free.append(file)
    took = sorted(took[warm:])
    return {"p50_ms": took[len(took) // 2] * 1e3, "p99_ms": took[len(took) * 99 // 100] * 1e3, "rate": rate}


def processor_time(process: int) -> float:
    """Return the seconds of processor time that a process has used: Linux has a clock for each."""
    return time.clock_gettime((~process << 3) | 2)


def main() -> None:
    """Load one server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=ASKS)
    parser.add_argument("port", type=int)
    parser.add_argument("--server", type=int, default=os.getpid(), help="its process")
    parser.add_argument("--connections", type=int, default=2_000, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="(default: %(default)s)")
    parser.add_argument("--rate", type=float, help="requests a second (default: only as fast as answered)")
    parser.add_argument("--processor", type=int, help="the one it runs on (default: any)")
    options = parser.parse_args()
    allow_many_files()
    if options.processor is not None:
        os.sched_setaffinity(0, {options.processor})
    gc.disable()
    clients = Clients(options.port, ASKS[options.program], options.connections)
    result = flat_out(clients, options.seconds, options.server)
    if options.rate:
        time.sleep(0.1)
        result |= at_a_rate(clients, options.seconds, options.rate)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
