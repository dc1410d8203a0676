"""Customers of a shop whose processes are killed, and the answers they got, to be compared with the books."""

import threading
from itertools import count

from tests.jobs.waiting import until

CUSTOMERS = 3
LEASE = 60  # seconds for which a handler that was killed has its job: then it is another's


class Customers:
    """Place orders and pay a third of them, while the shop comes and goes: `with Customers(place, pay):`.

    `place(number)` and `pay(order)` ask the shop, and return what came: None if it was away, or went away meanwhile.
    """

    def __init__(self, place, pay):
        self._place, self._pay = place, pay
        self.placed, self.paid = set(), set()  # as they were told
        self._over = threading.Event()
        self._numbers = count(1)
        self._failed = []
        self._threads = [threading.Thread(target=self._shop) for _ in range(CUSTOMERS)]

    def _shop(self):
        try:
            while not self._over.is_set():
                order = self._place(next(self._numbers))
                if order is None:
                    continue
                self.placed.add(order)
                if order % 3 == 0 and self._pay(order):
                    self.paid.add(order)
        except BaseException as error:
            self._failed.append(error)
            raise

    def enough(self):
        """Return once some orders were placed, and one was paid, however busy the machine is."""
        until(lambda: (len(self.placed) > 10 and self.paid) or self._failed)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()
        assert self._failed == []


def asked(program, path):
    """Return status and answer of a POST; None if the program is away, or went away."""
    try:
        return program.ask("POST", path)
    except AssertionError:
        return None


def are_balanced(books, told):
    """Whether the books, once nothing is left to be done, say what customers were told, and each order has one job."""

    def over():
        orders, live, _ = books()
        return orders and live == 0 and "unpaid" not in orders.values()

    until(over)
    orders, _, jobs = books()
    assert told.placed <= orders.keys()
    assert told.paid <= {order for order, state in orders.items() if state == "paid"}
    assert sorted(jobs) == sorted(f"order-{order}" for order in orders)
    assert {state for order, state in orders.items() if order not in told.paid} >= {"closed"}
