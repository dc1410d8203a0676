"""A chat over TCP, one line a message. A client that gives no name in time, or answers no ping, is disconnected.

Each connection has a timeout for its first line, a timer that sends pings, and one that each of its lines resets.
Without `--port` three clients connect: ann talks and goes, bob answers no ping, and one gives no name.
"""

import argparse
import asyncio
from contextlib import suppress

import pywheel


class Chat:
    def __init__(self, timers, timeout):
        self.timers, self.timeout = timers, timeout
        self.names = {}  # by writer

    def tell(self, message):
        print(message)
        for writer in self.names:
            writer.write(f"{message}\n".encode())

    async def serve(self, reader, writer):
        try:
            async with pywheel.timeout(self.timeout):
                name = (await reader.readline()).decode().strip()
            await self.talk(name, reader, writer)
        except TimeoutError:
            print("somebody gave no name in time")
        except (ConnectionError, ValueError):
            print("a connection was lost, or sent no text")
        finally:
            writer.close()

    async def talk(self, name, reader, writer):
        ping = self.timers.call_every(self.timeout / 3, writer.write, b"ping\n")
        silence = self.timers.call_later(self.timeout, writer.transport.abort)  # the next line is then an empty one
        self.names[writer] = name
        self.tell(f"{name} came")
        try:
            while line := await reader.readline():
                silence.reset()
                if line != b"pong\n":
                    self.tell(f"{name}: {line.decode().strip()}")
        finally:
            ping.cancel()
            del self.names[writer]
            self.tell(f"{name} left" if silence.cancel() else f"{name} did not answer")


async def client(port, lines, pongs):
    """Say these lines, the first of which is a name; after so many pongs, say no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.writelines(line.encode() + b"\n" for line in lines)
    with suppress(ConnectionError):
        while line := await reader.readline():
            if line == b"ping\n" and pongs:
                writer.write(b"pong\n")
                pongs -= 1
                if not pongs:
                    writer.write_eof()
    writer.close()


async def main(port, timeout):
    async with pywheel.AsyncTimers() as timers:
        async with await asyncio.start_server(Chat(timers, timeout).serve, "127.0.0.1", port) as server:
            if port:
                await server.serve_forever()
            port = server.sockets[0].getsockname()[1]
            await asyncio.gather(client(port, ["ann", "hello"], 5), client(port, ["bob"], 0), client(port, [], 0))
        print(f"{len(timers)} timers left")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="serve there (default: show three clients)")
    parser.add_argument("--timeout", type=float, default=3, help="seconds of silence (default: %(default)s)")
    asyncio.run(main(**vars(parser.parse_args())))
