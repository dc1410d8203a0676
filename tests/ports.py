"""Ports for servers that cannot choose one themselves."""

import socket
import sys

__all__ = ["reserved_ports"]


def reserved_ports(number):
    """Return ports of the loopback that no other program draws by chance while this process lives.

    A socket that never listens is bound to each: connections are refused until a server with SO_REUSEADDR listens
    there. The server may end and start again. Elsewhere than on Linux the ports are only free at this moment.
    """
    places = [socket.socket() for _ in range(number)]
    for place in places:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", 0))
    ports = [place.getsockname()[1] for place in places]
    for place in places:
        if sys.platform == "linux":
            place.detach()  # it stays open until the process ends
        place.close()
    return ports
