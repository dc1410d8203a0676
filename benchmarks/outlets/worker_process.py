"""A worker that delivers a store's jobs of topic ``t`` by webhook, until SIGTERM.

usage: python -m benchmarks.outlets.worker_process STORE CONCURRENCY [PER_HOST]
"""

from __future__ import annotations

import sys

from pywheel import Fixed, JobQueue, Worker
from pywheel.outlets import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def main(url: str, concurrency: int, per_host: int | None) -> None:
    """Work."""
    with JobQueue(url) as queue:
        outlet = Webhook(secrets=SECRET, allow=["127.0.0.0/8"], ports=None, per_host=per_host)
        queue.handler("t", concurrency=concurrency, retry=Fixed("5s", attempts=100))(outlet)
        worker = Worker(queue, grace=0)
        print("ready", flush=True)
        worker.run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
