"""A server to be measured: ``python -m benchmarks.service.serve STORE ACCESS``; it prints its port, and a token.

STORE ``none``: the same application, whose puts are answered without any store: what HTTP alone costs here.
"""

from __future__ import annotations

import sys
from typing import Any

from pywheel import JobQueue
from pywheel.server import app
from pywheel.server.access import Mode
from pywheel.server.process import address_of, run
from pywheel.server.tokens import Tokens


async def kept_nowhere(command: Any) -> Any:
    """Return as many ids as there are jobs, and keep nothing."""
    return [1] * len(command.jobs)


def main() -> None:
    """Serve until told to stop."""
    store = sys.argv[1]
    access: Mode = "tokens" if sys.argv[2] == "tokens" else "open"
    queue = JobQueue("memory:" if store == "none" else store)
    if store == "none":
        queue.calls.aapply = kept_nowhere  # type: ignore[method-assign]
    address = address_of("127.0.0.1", 0)
    with queue:
        said = [str(address[1])]
        if access == "tokens":
            said.append(Tokens(queue.store).add(["put"]))
        run(app(queue, access=access), address, ready=lambda: print(*said, flush=True))


if __name__ == "__main__":
    main()
