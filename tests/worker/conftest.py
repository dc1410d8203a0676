from tests.jobs.fixtures import clock, live_queue, metrics, queue, url
from tests.worker.supervised import shop

__all__ = ["clock", "live_queue", "metrics", "queue", "shop", "url"]
