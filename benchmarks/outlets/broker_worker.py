"""A worker process with one outlet into a broker: store, kind, address."""

import sys

from benchmarks.outlets.broker_client import IN_FLIGHT
from pywheel import JobQueue, Worker
from pywheel.outlets import kind


def main() -> None:
    """Work until SIGTERM."""
    store, name, address = sys.argv[1:]
    with JobQueue(store) as queue:
        queue.handler("t", concurrency=IN_FLIGHT)(kind(name)(address))
        worker = Worker(queue, grace=1)
        print("ready", flush=True)
        worker.run()


if __name__ == "__main__":
    main()
