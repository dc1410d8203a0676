"""Messages on a stream socket: a length, then so many bytes."""

from __future__ import annotations

import socket
import struct
from typing import Final

__all__ = ["receive", "send"]

_LENGTH: Final = struct.Struct("!Q")


def send(to: socket.socket, content: bytes) -> None:
    """Send a message. OSError; TimeoutError after the socket's time."""
    to.sendall(_LENGTH.pack(len(content)) + content)


def receive(source: socket.socket) -> bytes:
    """Return the next message. EOFError at the end, OSError, TimeoutError."""
    return _exactly(source, *_LENGTH.unpack(_exactly(source, _LENGTH.size)))


def _exactly(source: socket.socket, length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        part = source.recv(min(length - len(content), 1 << 20))
        if not part:
            raise EOFError
        content += part
    return bytes(content)
