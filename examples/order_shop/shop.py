"""Orders that close themselves, and mails that ask for a review: test_shop.py lets three days pass."""

from pywheel import GiveUp, JobQueue

queue = JobQueue("memory:")  # in production rather sqlite:////var/lib/shop.db
orders, mails = {}, []


def place(order):
    orders[order] = "unpaid"
    close_order.put(order)


def pay(order):
    orders[order] = "paid"  # first the payment, then the cancel: a crash in between
    close_order.cancel(order)  # leaves a job that looks again, and lets the order be
    ask.options(delay="2d").put(order)


@queue.task("order.close", key=lambda order: f"order-{order}", delay="30m")
def close_order(order: int) -> None:
    if orders[order] == "unpaid":
        orders[order] = "closed"


@queue.task("review.ask")
def ask(order: int) -> None:
    mails.append(order)
    if mails.count(order) == 3:
        raise GiveUp("three mails are enough")
    ask.options(delay="12h").put(order)
