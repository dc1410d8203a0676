"""The shop on FastAPI is killed between the steps of a request, and the books are balanced after it has begun again."""

import os
from contextlib import closing

import pytest

from pywheel import JobQueue, NoSuchJob
from tests.frameworks.programs import FOLDER
from tests.jobs.waiting import until

SHOP = ("-m", "uvicorn", "--port", "PORT", "fastapi_shop:app")
CRASHING = ("-m", "uvicorn", "--port", "PORT", "crashing_shop:app")
PROGRAM = '''
"""The shop, whose process is killed before or after a step of its transaction."""

import os
import signal

from sqlalchemy.ext.asyncio import AsyncSession

from fastapi_shop import app, close_order

moment, step = os.environ["SHOP_CRASH"].split()
kind = AsyncSession if step == "commit" else type(close_order)
call = getattr(kind, step)


async def crash(*arguments, **words):
    if moment == "after":
        await call(*arguments, **words)
    os.kill(os.getpid(), signal.SIGKILL)


setattr(kind, step, crash)
'''
ORDER = ("order.close", "order-7")


@pytest.fixture
def crashed(start, tmp_path):
    """Return the shop after it was killed in the midst of a request, and begun again."""

    def crashed(crash, path):
        (tmp_path / "crashing_shop.py").write_text(PROGRAM)
        folders = os.pathsep.join(map(str, (tmp_path, FOLDER)))
        shop = start(*CRASHING, folder=tmp_path, PYTHONPATH=folders, SHOP_CRASH=crash)
        with pytest.raises(AssertionError):  # nobody answers
            shop.ask("POST", path)
        assert shop.stop() == -9
        return start(*SHOP)

    return crashed


@pytest.fixture
def jobs(tmp_path):
    with closing(JobQueue(f"sqlite:///{tmp_path}/jobs.db")) as queue:
        yield queue


def lives(jobs):
    """Whether the order has a live job."""
    try:
        return jobs.get(ORDER).state.live
    except NoSuchJob:
        return False


def balanced(shop, jobs):
    """Return the state of the order, None if there is none; an unpaid one has a live job."""
    status, order = shop.ask("GET", "/orders/7")
    state = order["state"] if status == 200 else None
    assert state != "unpaid" or lives(jobs), "nobody will ever close it"
    return state


def when_it_is_time(shop, jobs):
    """Return the state of the order once the time to pay it is over."""
    if lives(jobs):
        jobs.reschedule(ORDER, 0)
        until(lambda: not lives(jobs))
    return balanced(shop, jobs)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("crash", ["before cancel", "after cancel", "after commit"])
def test_a_payment_that_was_cut_short_has_happened_with_its_cancel_or_not_at_all(start, crashed, jobs, crash):
    shop = start(*SHOP)
    assert shop.ask("POST", "/orders/7?delay=1h")[0] == 201
    assert balanced(shop, jobs) == "unpaid"
    shop.stop()
    shop = crashed(crash, "/orders/7/pay")
    before = balanced(shop, jobs)
    assert (before, lives(jobs)) == (("paid", False) if crash == "after commit" else ("unpaid", True))
    assert when_it_is_time(shop, jobs) == {"paid": "paid", "unpaid": "closed"}[before]


@pytest.mark.drawn(1)
@pytest.mark.parametrize("crash", ["before put", "after put", "after commit"])
def test_an_order_that_was_cut_short_is_there_with_its_job_or_not_at_all(crashed, jobs, crash):
    shop = crashed(crash, "/orders/7?delay=1h")
    there = balanced(shop, jobs) is not None
    assert (there, lives(jobs)) == ((True, True) if crash == "after commit" else (False, False))
    shop.ask("POST", "/orders/7?delay=1h")  # the client tries again
    assert when_it_is_time(shop, jobs) == "closed"


def test_a_paid_order_is_not_closed_by_a_job_that_is_left(start, jobs):
    shop = start(*SHOP)
    assert shop.ask("POST", "/orders/7?delay=1h")[0] == 201
    assert shop.ask("POST", "/orders/7/pay") == (200, {"state": "paid"})
    jobs.put("order.close", {"order": 7}, delay="1h", key="order-7")
    assert when_it_is_time(shop, jobs) == "paid"
    assert shop.ask("POST", "/orders/7/pay")[0] == 409


def test_an_order_that_is_closed_takes_no_payment(start, jobs):
    shop = start(*SHOP)
    assert shop.ask("POST", "/orders/7?delay=1h")[0] == 201
    assert when_it_is_time(shop, jobs) == "closed"
    assert shop.ask("POST", "/orders/7/pay")[0] == 409
    assert balanced(shop, jobs) == "closed"
