"""A client that would rather speak another protocol, as Java's does with each request, is answered in HTTP/1.1."""

import socket
import time

import pytest

pytestmark = pytest.mark.stress

WISH = "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
BODY = b'{"topic": "mail",\r\n"body": "\\r\\nUpgrade: h2c"}'


@pytest.mark.parametrize(("name", "apart"), [("Upgrade", True), ("upgrade", False), ("UPGRADE", False)])
def test_a_wish_for_another_protocol_is_passed_over(server, name, apart):
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{WISH}{name}: h2c\r\n"
    head += f"Content-Length: {len(BODY)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        for _ in range(2):  # and the connection goes on
            for part in (head.encode(), BODY) if apart else (head.encode() + BODY,):
                connection.sendall(part)
                time.sleep(0.05)
            answer = connection.recv(4096)
            while not answer.endswith(b"}"):
                answer += connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 201 "), answer
    id = answer.rpartition(b'{"id":"')[2].partition(b'"')[0].decode()
    assert server("GET", f"/v1/jobs/{id}").json()["body"] == "\r\nUpgrade: h2c"
