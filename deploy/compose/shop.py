"""A program with a handler, for the compose file: ``pywheel work shop:queue``."""

import os

from pywheel import Job, JobQueue

queue = JobQueue(os.environ["PYWHEEL_STORE"])


@queue.handler("mail", concurrency=16)
def mail(job: Job) -> None:
    """Say what would be sent."""
    print("would send", job.body, flush=True)
