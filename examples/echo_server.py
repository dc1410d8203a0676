"""A TCP echo server that closes connections on which nothing came for a while, and thousands of clients.

Each connection has one timer, and each packet resets it: that is all an idle timeout needs. Every client falls silent
after some packets, and the server closes it.

The program is the same on each loop; with `--loop uvloop` the sockets are libuv's and the timers the wheel's.
"""

import argparse
import asyncio
import resource
import time
from contextlib import suppress

import pywheel


class Echo(asyncio.Protocol):
    """One connection of the server."""

    def __init__(self, server):
        self.server = server

    def connection_made(self, transport):
        self.transport = transport
        self.heard = time.monotonic()
        self.idle = self.server.timers.call_later(self.server.timeout, self.close_idle)
        self.server.connections += 1

    def data_received(self, data):
        self.heard = time.monotonic()
        self.idle.reset()
        self.server.packets += 1
        self.transport.write(data)

    def close_idle(self):
        self.server.waits.append(time.monotonic() - self.heard)
        self.transport.close()

    def connection_lost(self, error):
        self.idle.cancel()


class Server:
    """What the connections share."""

    def __init__(self, timers, timeout):
        self.timers = timers
        self.timeout = timeout
        self.connections = self.packets = 0
        self.waits = []  # the silence before each end


async def talk(port, packets, pause):
    """Send packets and read them back; then fall silent until the server closes, as it does to who is too slow."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        for _ in range(packets):
            writer.write(b"ping")
            await reader.readexactly(4)
            await asyncio.sleep(pause)
        await reader.read()
    writer.close()


async def main(arguments):
    """Serve, connect, and tell what happened."""
    loop = asyncio.get_running_loop()
    async with pywheel.AsyncTimers() as timers:
        state = Server(timers, arguments.timeout)
        server = await loop.create_server(lambda: Echo(state), "127.0.0.1", 0, backlog=1024)
        port = server.sockets[0].getsockname()[1]
        print(f"{arguments.connections} connections, closed after {arguments.timeout:g} s without a packet")
        clients = []
        for number in range(arguments.connections):
            clients.append(asyncio.create_task(talk(port, 1 + number % arguments.packets, arguments.timeout / 2)))
            if number % 100 == 99:
                await asyncio.sleep(0.01)
        await asyncio.gather(*clients)
        server.close()
        await server.wait_closed()
        left = len(timers)
    waits = sorted(state.waits)
    print(f"{state.connections} connected, {state.packets} packets echoed, each of which reset a timer")
    print(f"{len(waits)} were closed as idle, {sum(wait < arguments.timeout for wait in waits)} of them too early")
    print(f"silence until closed: {waits[0]:.3f} s at least, {waits[len(waits) // 2]:.3f} s as a rule")
    print(f"{left} timers left")


def new_loop(name):
    """Return a loop: asyncio's own, pywheel's, or uvloop's, if that is installed."""
    if name == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    return pywheel.EventLoop() if name == "EventLoop" else asyncio.new_event_loop()


def parse():
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=2000, help="how many clients (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=1.0, help="idle seconds (default: %(default)s)")
    parser.add_argument("--packets", type=int, default=4, help="packets of the busiest clients (default: %(default)s)")
    parser.add_argument(
        "--loop", choices=["asyncio", "EventLoop", "uvloop"], default="asyncio", help="(default: %(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    options = parse()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 2 * options.connections + 100), most))
    with asyncio.Runner(loop_factory=lambda: new_loop(options.loop)) as runner:
        runner.run(main(options))
