"""A server to be measured: ``python -m benchmarks.service.serve STORE``, which says its port on a line.

STORE ``none``: the same application, whose puts are answered without any store: what HTTP alone costs here.
"""

from __future__ import annotations

import sys
from typing import Any

from pywheel import JobQueue
from pywheel.server import app
from pywheel.server.process import listening, run


class NoStore(JobQueue):
    """Answers puts, and keeps nothing."""

    async def aapply(self, command: Any) -> Any:
        """Return as many ids as there are jobs."""
        return [1] * len(command.jobs)


def main() -> None:
    """Serve until told to stop."""
    queue = NoStore("memory:") if sys.argv[1] == "none" else JobQueue(sys.argv[1])
    with queue, listening("127.0.0.1", 0) as ear:
        run(app(queue, access="open"), ear, ready=lambda: print(ear.getsockname()[1], flush=True))


if __name__ == "__main__":
    main()
