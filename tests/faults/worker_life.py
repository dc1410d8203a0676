"""Put from several threads, beside a worker, and note what returned, what began, and what the worker said it settled.

usage: worker_life.py FOLDER LOG SEED PUTS SYNCHRONOUS
"""

import logging
import random
import sys
import threading
from itertools import count

from pywheel import JobQueue, Worker
from pywheel.events import JobEnded
from tests.faults.notes import NAME, Notes, with_settings

THREADS = 3


def main(folder, log, seed, puts, synchronous):
    logging.disable()
    with_settings(synchronous)
    notes, dice = Notes(folder, log), random.Random(int(seed))
    numbers = count(int(seed) * 1_000)  # of jobs: no other life has them

    def listen(event):
        if isinstance(event, JobEnded):
            notes.note(settled=[event.job.json(), event.state])

    queue = JobQueue(f"sqlite:///{folder}/{NAME}", listeners=[listen])

    @queue.handler("t", concurrency=4, retry=lambda job, error: 0.0 if job.attempt < 3 else None)
    def handle(job):
        notes.note(began=[job.json(), job.claims])
        if job.json() % 4 == 0:
            raise ValueError("no")

    def put(batches):
        for batch in batches:
            notes.note(put=batch)
            queue.put_many([queue.job("t", number) for number in batch])
            notes.note(kept=batch)

    plans = [
        [[next(numbers) for _ in range(dice.choice((1, 1, 1, 4)))] for _ in range(int(puts) // THREADS)]
        for _ in range(THREADS)
    ]
    worker = Worker(queue)
    worker.start()
    threads = [threading.Thread(target=put, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    worker.stop()
    worker.join()
    queue.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
