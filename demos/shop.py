"""A believable shop, for looking at the page: a store with a past, jobs to come, and a worker at work."""

from __future__ import annotations

import json
import logging
import random
import sys
import threading
import time
from collections.abc import Iterator

from pywheel import GiveUp, JobQueue, Worker
from pywheel.jobs.commands import Import, Put
from pywheel.jobs.job import Attempt, Imported, Job, NewJob, Outcome, State
from pywheel.jobs.retry import Ladder

__all__ = ["TOPICS", "fill", "handlers"]

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
SHOPS = ["lantern-books", "kaffeehaus", "velo-nord", "aria-records", "studio-mint", "ostrova", "paper-moon"]
TOPICS = ["cart.remind", "invoice.pdf", "mail.send", "order.expire", "parcel.track", "search.index", "shop.notify"]
ERRORS = {
    "shop.notify": [
        "ClientConnectorError: cannot connect to host hooks.{shop}.example:443 [Connection refused]",
        "TimeoutError: POST https://hooks.{shop}.example/orders: no answer within 15.0 s",
        "HookFailed: 500 Internal Server Error, request id {hex}",
    ],
    "invoice.pdf": ["KeyError: 'vat_id' of order {order}", "RenderError: font 'Inter' not found on page {page}"],
    "mail.send": ["SMTPRecipientsRefused: 550 5.1.1 <customer{order}@example.net>: user unknown"],
    "parcel.track": ["CarrierAway: 503 from carrier after 3 tries, job {order}"],
}


def fill(queue: JobQueue, *, jobs: int = 12_000, seed: int = 4) -> None:
    """Put what a shop has on an ordinary afternoon: thousands of jobs to come, some hundreds behind it, a few dead."""
    draw, now = random.Random(seed), queue.store.clock.wall()
    ahead = [_ahead(draw, now) for _ in range(jobs)]
    for start in range(0, len(ahead), 1000):
        queue.store.apply([Put(tuple(ahead[start : start + 1000]))])
    past = list(_past(draw, now))
    for start in range(0, len(past), 500):
        queue.store.apply([Import(tuple(past[start : start + 500]))])
    queue.topics.pause("search.index")


def _ahead(draw: random.Random, now: int) -> NewJob:
    kind, order = draw.random(), draw.randrange(100_000, 999_999)
    shop = draw.choice(SHOPS)
    if kind < 0.45:  # orders are open for half an hour, and come in waves
        due = now + int(draw.triangular(0, 30 * MINUTE, 12 * MINUTE))
        return _new("order.expire", {"order": order, "shop": shop, "if": "unpaid"}, due, f"order-{order}")
    if kind < 0.6:  # reminders the next day, and in the evening
        due = now + int(draw.gauss(20 * HOUR, 1.5 * HOUR) if draw.random() < 0.6 else draw.gauss(5 * HOUR, HOUR))
        return _new("cart.remind", {"cart": order, "shop": shop}, max(due, now + MINUTE))
    if kind < 0.75:
        due = now + int(draw.expovariate(1 / (4 * HOUR)))
        return _new("parcel.track", {"parcel": f"PW{order}CH", "carrier": draw.choice(["post", "dhl"])}, due)
    if kind < 0.85:
        return _new(
            "mail.send", {"to": f"customer{order}@example.net", "template": "shipped"}, now + draw.randrange(MINUTE)
        )
    if kind < 0.93:
        due = now + draw.choice([5, 30, 60, 600, 1800, 3600]) * 1000 + draw.randrange(20_000)
        return _new("shop.notify", {"order": order, "shop": shop, "event": "order.paid"}, due, f"paid-{order}")
    if kind < 0.96:
        return _new("search.index", {"product": order}, now - draw.randrange(3 * MINUTE))
    return _new("invoice.pdf", {"order": order, "lines": draw.randrange(1, 9)}, now + draw.randrange(2 * HOUR))


def _new(topic: str, body: object, due: int, key: str | None = None) -> NewJob:
    trace = random.Random(due).randbytes(24).hex()
    headers = {"traceparent": f"00-{trace[:32]}-{trace[32:]}-01"}
    return NewJob(topic, json.dumps(body).encode(), due, key, headers=headers, replace=key is not None)


def _past(draw: random.Random, now: int) -> Iterator[Imported]:
    for _ in range(600):
        topic = draw.choice(["mail.send", "shop.notify", "order.expire", "invoice.pdf", "parcel.track"])
        started = now - draw.randrange(2 * MINUTE, DAY)
        yield _ended(draw, topic, started, State.DONE, 1)
    for topic, number in (("shop.notify", 37), ("mail.send", 11), ("invoice.pdf", 6), ("parcel.track", 3)):
        for _ in range(number):
            yield _ended(draw, topic, now - draw.randrange(3 * DAY, 4 * DAY), State.DEAD, 7)


LADDER = (0, 5_000, 30_000, MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 6 * HOUR, DAY)


def _ended(draw: random.Random, topic: str, started: int, state: State, attempts: int) -> Imported:
    order, shop = draw.randrange(100_000, 999_999), draw.choice(SHOPS)
    created, due, at = started - 30 * MINUTE, started, started
    rows = []
    kinds = ERRORS.get(topic, ["RuntimeError: it did not work"])
    kind = draw.choices(kinds, [5, 3, 2][: len(kinds)])[0]
    for attempt in range(1, attempts + 1):
        at += LADDER[attempt - 1]
        due = at
        begun = at + draw.randrange(1, 6)
        at = begun + (15_000 if "Timeout" in kind and state is State.DEAD else draw.randrange(20, 900))
        fine = state is State.DONE and attempt == attempts
        details = {"shop": shop, "order": order, "hex": draw.randbytes(8).hex(), "page": draw.randrange(9)}
        error = None if fine else kind.format(**details)
        outcome, host = Outcome.DONE if fine else Outcome.FAILED, draw.randrange(1, 4)
        rows.append(Attempt(attempt, attempt, begun, at, outcome, f"jobs-{host}:{2100 + host}", error))
    body = {
        "order": order,
        "shop": shop,
        "event": "order.paid",
        "total": {"amount": "84.90", "currency": "CHF"},
        "lines": [{"sku": f"B-{order % 997}", "quantity": 2}, {"sku": "GIFT", "quantity": 1}],
    }
    trace = draw.randbytes(24).hex()
    headers = {"traceparent": f"00-{trace[:32]}-{trace[32:]}-01"}
    most = attempts if state is State.DEAD else None
    content, key = json.dumps(body).encode(), f"paid-{order}"
    counted = {"claims": attempts, "attempt": attempts}
    job = Job(0, topic, content, due, created, state, key, max_attempts=most, headers=headers, **counted)
    return Imported(job, tuple(rows))


def handlers(queue: JobQueue) -> None:
    """Register what the shop does with its jobs: it takes some time, and fails now and then."""
    draw = random.Random(8)

    def work(job: Job) -> None:
        time.sleep(draw.uniform(0.001, 0.02))
        if job.topic == "shop.notify" and draw.random() < 0.2:
            order, shop = job.json()["order"], job.json()["shop"]
            raise ConnectionError(ERRORS["shop.notify"][2].format(shop=shop, order=order, hex=draw.randbytes(8).hex()))
        if job.topic == "mail.send" and draw.random() < 0.01:
            raise GiveUp(ERRORS["mail.send"][0].format(order=job.id))

    for topic in TOPICS:
        if topic != "search.index":
            queue.handler(topic, retry=Ladder("5s", "30s", "1m", "10m", "30m", "1h"))(work)


def _orders(queue: JobQueue, stop: threading.Event) -> None:
    """Put what new orders bring, until told to stop."""
    draw = random.Random(9)
    while not stop.wait(draw.expovariate(6)):
        queue.store.apply([Put((_ahead(draw, queue.store.clock.wall()),))])


def main(url: str, name: str | None = None) -> None:
    """Work on the shop's jobs, and put new ones, until SIGTERM."""
    logging.disable(logging.ERROR)
    with JobQueue(url) as queue:
        handlers(queue)
        worker = Worker(queue, name=name)
        stop = threading.Event()
        orders = threading.Thread(target=_orders, args=(queue, stop))
        orders.start()
        try:
            worker.run()
        finally:
            stop.set()
            orders.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
