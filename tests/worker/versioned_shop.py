"""Two versions of a program, side by side as in a rolling deploy: ``python -m tests.worker.versioned_shop URL 1|2``."""

import sys

from pywheel import Fixed, JobQueue, Worker

OPTIONS = {"retry": Fixed("20ms", attempts=2), "results": True}


def program(url, version):
    """Return the queue of a version. Each result says which one handled the job, and with what arguments."""
    queue = JobQueue(url)
    VERSIONS[version](queue)
    return queue


def first(queue):
    @queue.task("added", **OPTIONS)
    def added(id: int) -> list:
        return [1, id]

    @queue.task("dropped", **OPTIONS)
    def dropped(id: int, shop: str = "main") -> list:
        return [1, id, shop]

    @queue.task("renamed", **OPTIONS)
    def renamed(old: int) -> list:
        return [1, old]

    @queue.task("wanted", **OPTIONS)
    def wanted(id: int) -> list:
        return [1, id]

    @queue.task("moved from", **OPTIONS)
    def moved(id: int) -> list:
        return [1, id]

    @queue.task("of the old alone", **OPTIONS)
    def old(id: int) -> list:
        return [1, id]


def second(queue):
    @queue.task("added", **OPTIONS)
    def added(id: int, shop: str = "main") -> list:
        return [2, id, shop]

    @queue.task("dropped", **OPTIONS)
    def dropped(id: int) -> list:
        return [2, id]

    @queue.task("renamed", **OPTIONS)
    def renamed(new: int) -> list:
        return [2, new]

    @queue.task("wanted", **OPTIONS)
    def wanted(id: int, shop: str) -> list:
        return [2, id, shop]

    @queue.task("moved to", **OPTIONS)
    def moved(id: int) -> list:
        return [2, id]

    @queue.task("of the new alone", **OPTIONS)
    def new(id: int) -> list:
        return [2, id]


VERSIONS = {1: first, 2: second}

if __name__ == "__main__":
    Worker(program(sys.argv[1], int(sys.argv[2]))).run()
