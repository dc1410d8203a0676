"""A TCP server with as many connections as one client's address has ports for, each with a timer that packets reset."""

import re
import resource

import pytest

from tests.frameworks.programs import FOLDER

CONNECTIONS = 9_500


@pytest.mark.drawn(1)
@pytest.mark.parametrize("loop", ["asyncio", "EventLoop"])
def test_every_idle_connection_is_closed_none_too_early(start, loop):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = min(CONNECTIONS, (most - 200) // 2)  # both ends are in one process
    server = start(FOLDER.parent / "echo_server.py", "--connections", connections, "--timeout", "2", "--loop", loop)
    assert server.wait(240) == 0, server.said
    assert f"{connections} connected" in server.said
    assert re.search(rf"{connections} were closed as idle, 0 of them too early", server.said)
    assert "0 timers left" in server.said
