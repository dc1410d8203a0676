"""Simulated time for a queue with schedules, from due time to due time."""

from pywheel.jobs.queries import GetNextDues
from pywheel.stores.schedule_notes import TOPIC
from pywheel.testing import run_due

NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z


def start(clock, wall=NOON):
    """Have a clock show a time: whole seconds, in ms."""
    clock.step((wall - clock.wall()) // 1000)


def pass_time(queue, clock, seconds):
    """Let `seconds` seconds pass, handling each due job at its time."""
    end = clock.wall() + round(seconds * 1000)
    run_due(queue)
    while True:
        dues = [due for due in queue.store.ask(GetNextDues((*queue.handlers, TOPIC))).values() if due > clock.wall()]
        following = min([*dues, end])
        if following >= end:
            break
        clock.advance((following - clock.wall()) / 1000)
        run_due(queue)
    clock.advance((end - clock.wall()) / 1000)
    run_due(queue)
