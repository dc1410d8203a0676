"""The cost of typed arguments: at the put, and at the handler."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

from pywheel import JobQueue

BODY = b'{"order_id":7,"shop":"main","total":12.5,"paid":true}'


def close_order(order_id: int, shop: str, total: float, paid: bool) -> None:
    """Do nothing."""


def beside_bytes(url: str, rounds: int = 60, count: int = 50) -> dict[str, float]:
    """Put the same body as bytes, as a dict and by a task, in turns of some milliseconds; us each, and to the first."""
    with JobQueue(url) as queue:
        task = queue.task("task")(close_order)
        ways: dict[str, Callable[[], int]] = {
            "bytes": lambda: queue.put("plain", BODY),
            "dict": lambda: queue.put("plain", {"order_id": 7, "shop": "main", "total": 12.5, "paid": True}),
            "task": lambda: task.put(order_id=7, shop="main", total=12.5, paid=True),
        }
        spent: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                spent[name].append(_seconds(way, count))
    return {
        **{name: 1e6 * min(seconds) for name, seconds in spent.items()},
        "ratio": median(task / plain for task, plain in zip(spent["task"], spent["bytes"], strict=True)),
    }


def conversion(rounds: int = 20, count: int = 5_000) -> float:
    """Return us from the job to the arguments, and of their call, less that of the call alone."""
    with JobQueue("memory:") as queue:
        task = queue.task("task")(close_order)
        job = queue.get(task.put(order_id=7, shop="main", total=12.5, paid=True))
        handle = partial(queue.handlers["task"].function, job)
        alone = partial(close_order, order_id=7, shop="main", total=12.5, paid=True)
        taken = [(_seconds(handle, count), _seconds(alone, count)) for _ in range(rounds)]
    return 1e6 * (min(first for first, _ in taken) - min(second for _, second in taken))


def _seconds(way: Callable[[], object], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        way()
    return (time.perf_counter() - began) / count
