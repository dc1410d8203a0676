"""A program whose jobs go to a broker; the tests run it as workers of their own."""

import os

from pywheel import Fixed, JobQueue
from pywheel.outlets import kind

queue = JobQueue(os.environ["SHOP_STORE"])
_outlet = kind(os.environ["SHOP_KIND"])(os.environ["SHOP_BROKER"], timeout=os.environ.get("SHOP_TIMEOUT", "2s"))
queue.handler("notify", concurrency=20, ttr=5, retry=Fixed("100ms", attempts=10_000))(_outlet)
