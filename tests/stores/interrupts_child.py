"""Put from three threads while signals whose handler raises end the main thread's puts at random moments.

usage: interrupts_child.py URL PUTS SEED
"""

import faulthandler
import json
import random
import signal
import sys
import threading
from contextlib import suppress

from pywheel import StoreBusy, StoreError
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetJob
from pywheel.stores import open

URL, PUTS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(SEED)
told, errors, interrupted = [], [], []


class Interrupt(Exception):
    """What the handler raises: not a KeyboardInterrupt, as a program's own time limits are none."""


def put(store):
    [[id]] = store.apply([ops.Put((NewJob("t", b"x", 0),))])
    return id


def work(store, count):
    for _ in range(count):
        try:
            told.append(put(store))
        except Exception as error:
            errors.append(repr(error))


def again(seconds=2e-5):
    signal.setitimer(signal.ITIMER_REAL, seconds)


def handler(number, frame):
    """Interrupt a put, and seldom one of the handler's own.

    On a busy machine the next signal may come before the handler has returned from this one. That signal is put off, so
    that signals do not pile up.
    """
    if frame.f_code in OWN:
        again(1e-3)
        return
    if nests := draw.random() < 0.2:
        again()
    try:
        interrupt(frame)
    finally:
        if not nests:
            again()


def interrupt(frame):
    while frame.f_code is not put.__code__:
        frame = frame.f_back
        if frame is None:
            return  # between two puts of the main thread
    if draw.random() < 0.2:
        with suppress(StoreBusy):
            told.append(put(store))  # a handler may use the store too: it is told, or StoreBusy
    raise Interrupt


OWN = {function.__code__ for function in (again, handler, interrupt)}
faulthandler.dump_traceback_later(230, exit=True)
store = open(URL)
signal.signal(signal.SIGALRM, handler)

threads = [threading.Thread(target=work, args=(store, PUTS // 2)) for _ in range(2)]
for thread in threads:
    thread.start()


for _ in range(PUTS):
    signal.setitimer(signal.ITIMER_REAL, draw.choice((1e-5, 1e-4, 1e-3)) * draw.random() + 1e-6)
    try:
        told.append(put(store))
    except (Interrupt, SystemError):  # within os.stat CPython 3.11.2 calls a handler with an exception set, and says so
        interrupted.append(1)
    except StoreBusy:
        pass
    except StoreError as error:
        errors.append(repr(error))
# A handler that was about to begin would set the timer again; and of a signal that it ignores Python may say that.
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0)
for thread in threads:
    thread.join()
after = [put(store) for _ in range(3)]
missing = [id for id in [*told, *after] if store.ask(GetJob(id)) is None]
twice = len(told) - len(set(told))
store.close()
print(json.dumps([missing, twice, errors, len(interrupted), len(told)]))
