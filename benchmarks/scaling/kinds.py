"""The kinds of store, as the model sees them: in seconds, as measured (`measured.json`) or estimated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from benchmarks.scaling.servers import Way

MEASURED = Path(__file__).with_name("measured.json")
US = 1e-6


@dataclass(frozen=True)
class Kind:
    """The cost of work. Times are processor seconds, except `flush`."""

    name: str
    way: Way = Way.TOGETHER
    flush: float = 0.0  # of a commit; 0 if none waits for the disk
    bandwidth: float = inf  # bytes a second of its log
    put_bytes: float = 0.0  # of the log, for each job put
    deliver_bytes: float = 0.0  # and for each delivered
    transaction: float = 0.0  # of the server, for one that puts
    put: float = 0.0  # of the server, for each job put
    step: float = 0.0  # of the server, for a worker's step
    deliver: float = 0.0  # of the server, for each job claimed, and acked in a later step
    worker_step: float = 0.0
    worker: float = 0.0  # of the worker, for each job delivered
    empty: float = 0.0  # of the server, for a step whose claim finds nothing
    claim: float = 0.0  # of the server, for each topic that a step claims from beside the first
    worker_claim: float = 0.0
    passed: float = 0.0  # of the server, for each due job that a claim finds locked by another one
    look: float = 0.0  # of the server, for a look at the next due time of a topic
    look_more: float = 0.0  # and for each topic more
    worker_look: float = 0.0
    beat: float = 0.0  # of the server
    beat_each: float = 0.0  # and for each worker that is there
    ring: float = 0.0  # of the server, for a message to a worker about a job
    ring_each: float = 0.0  # and for each worker that listens


def kinds(file: Path = MEASURED) -> dict[str, Kind]:
    """Return the kinds by name. Costs without a measure are estimated, and marked so."""
    measured = json.loads(file.read_text())
    made = {
        "PostgreSQL": _postgres,
        "Redis always": lambda figures: _redis("Redis always", figures, figures["fsync us"]),
        "Redis everysec": lambda figures: _redis("Redis everysec", figures, 0.0),
        "SQLite": _sqlite,
    }
    names = {"PostgreSQL": "postgres", "Redis always": "redis", "Redis everysec": "everysec", "SQLite": "sqlite"}
    found = {name: make(measured[names[name]]) for name, make in made.items() if names[name] in measured}
    if "PostgreSQL" in found:
        found["MariaDB"] = _mariadb(found["PostgreSQL"])
    return found


def _common(figures: dict[str, Any]) -> dict[str, float]:
    def us(name: str) -> float:
        return US * float(figures[name])

    return {
        "transaction": max(us("put one, server us") - us("put many, server us"), 0.0),
        "put": us("put many, server us"),
        "put_bytes": float(figures["put many, log bytes"]),
        "deliver_bytes": float(figures["drain by 1, log bytes"]),
        # At 500 a second a job mostly has two steps for itself: its claim and its ack.
        "step": max(us("paced, server us") - us("drain by 1, server us"), 0.0) / 2,
        "deliver": us("drain by 1, server us"),
        "worker_step": max(us("paced, worker us") - us("drain by 1, worker us"), 0.0) / 2,
        "worker": us("drain by 1, worker us"),
        "empty": us("empty claim, server us"),
        "claim": us("empty claim, a topic more, server us"),
        "worker_claim": us("empty claim, a topic more, worker us"),
        "look": us("look, server us"),
        "look_more": us("look, a topic more, server us"),
        "worker_look": us("look, worker us"),
    }


def _postgres(figures: dict[str, Any]) -> Kind:
    few, many = (US * figures[f"beat beside {count}, server us"] for count in (1, 100))
    ring, rings = (US * figures[f"NOTIFY beside {count}, server us"] for count in (1, 100))
    beat, bell = (many - few) / 99, (rings - ring) / 99
    return Kind(
        "PostgreSQL",
        Way.TOGETHER,
        US * figures["fsync us"],
        **_common(figures),
        passed=US * figures["passed, server us"],
        beat=max(few - beat, 0.0),
        beat_each=max(beat, 0.0),
        ring=max(ring - bell, 0.0),
        ring_each=max(bell, 0.0),
    )


def _redis(name: str, figures: dict[str, Any], flush: float) -> Kind:
    # Beats and rings were not measured: a script without jobs is taken for a third of a put (estimated).
    third = _common(figures)["transaction"] / 3
    return Kind(name, Way.LOOP, US * flush, **_common(figures), beat=third, beat_each=0.5 * US, ring=third)


def _sqlite(figures: dict[str, Any]) -> Kind:
    """All is done by the processes themselves; of a delivery seven tenths under the write lock (estimated)."""
    put, one = US * figures["put many, client us"], US * figures["put one, client us"]
    each, alone = US * figures["drain by 1, worker us"], US * figures["paced, worker us"]
    step, claim = max(alone - each, 0.0) / 2, US * figures["empty claim, a topic more, worker us"]
    return Kind(
        "SQLite",
        Way.LOCK,
        US * figures["fsync us"],
        transaction=max(one - put, 0.0),
        put=put,
        step=0.3 * step,
        deliver=0.7 * each,
        worker_step=0.7 * step,
        worker=0.3 * each,
        empty=0.3 * US * figures["empty claim, worker us"],
        claim=0.7 * claim,
        worker_claim=0.3 * claim,
        worker_look=US * figures["look, worker us"],
    )


def _mariadb(postgres: Kind) -> Kind:
    """Estimated, all of it: a prototype drained at 0.6 to 0.75 of PostgreSQL's rate, and its puts cost as much."""
    return Kind(
        "MariaDB",
        Way.TOGETHER,
        postgres.flush,
        transaction=postgres.transaction,
        put_bytes=postgres.put_bytes,
        deliver_bytes=postgres.deliver_bytes,
        put=1.5 * postgres.put,
        step=1.5 * postgres.step,
        deliver=2.0 * postgres.deliver,
        worker_step=postgres.worker_step,
        worker=1.3 * postgres.worker,
        empty=1.5 * postgres.empty,
        claim=1.5 * postgres.claim,
        worker_claim=postgres.worker_claim,
        passed=2 * postgres.passed,
        look=2 * postgres.look,
        look_more=2 * postgres.look_more,
        worker_look=postgres.worker_look,
        beat=2 * postgres.beat,
        beat_each=postgres.beat_each,
        ring=postgres.transaction,
    )
