"""Notes when the machine gave this process no turn: what happened then says nothing about anybody else.

usage: ledger_watchdog.py LEDGER
"""

import sys
import time

from tests.worker.ledger import Pen

PAUSE = 0.02
STARVED = 0.15  # seconds that a pause and a little work may take beyond their time

pen = Pen(sys.argv[1], "watchdog")
before = time.time()
while True:
    time.sleep(PAUSE)
    sum(range(20_000))
    now = time.time()
    if now - before > PAUSE + STARVED:
        pen.note("starved", since=before * 1000)
    before = now
