"""Three days of a paid order, in milliseconds: pytest examples/order_shop."""

import pytest
import shop


@pytest.fixture
def jobs(queue_tester):
    return queue_tester(shop.queue)


def test_three_days_of_a_paid_order(jobs):
    shop.place(7)
    jobs.assert_put("order.close", order=7, delay="30m", key="order-7")
    jobs.advance("10m")
    shop.pay(7)
    jobs.advance("3d")
    assert shop.orders[7] == "paid"
    assert shop.mails == [7, 7, 7]
    [last] = jobs.dead()
    assert "three mails are enough" in last.last_error
    assert jobs.jobs(state="delayed") == []
