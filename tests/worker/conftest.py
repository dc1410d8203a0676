from tests.jobs.fixtures import clock, live_queue, metrics, queue, url

__all__ = ["clock", "live_queue", "metrics", "queue", "url"]
