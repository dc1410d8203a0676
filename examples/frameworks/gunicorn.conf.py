"""A worker of jobs in each worker process of gunicorn: it begins after the fork, as threads do not survive one.

With ``SHOP_WORKERS=none`` no process of the server works, and `pywheel work` does.
"""

import os

from pywheel import Worker


def post_worker_init(server):
    if os.environ.get("SHOP_WORKERS") != "none":
        from flask_shop import queue

        server.jobs = Worker(queue)
        server.jobs.start()


def worker_exit(arbiter, server):
    if hasattr(server, "jobs"):
        server.jobs.stop()
        server.jobs.join(30)
