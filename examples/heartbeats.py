"""A failure detector: a hundred thousand members send heartbeats, and those that stop are found dead.

Each member has one timer. A heartbeat resets it; if it fires, the member is suspected. A thread runs the timers, others
receive the heartbeats.
"""

import argparse
import random
import threading
import time

import pywheel


class Detector:
    """Suspects members from which nothing was heard for `timeout` seconds."""

    def __init__(self, timers, timeout, members):
        self.suspected = {}
        self.timers = timers
        self.watches = [timers.call_later(timeout, self.suspect, member) for member in range(members)]

    def heartbeat(self, member):
        return self.watches[member].reset()

    def suspect(self, member):
        self.suspected[member] = self.timers.time()


def beat(detector, members, interval, end, counts, number):
    """Send the heartbeats of those members that live, again and again."""
    sent = 0
    while (start := time.monotonic()) < end:
        for member in members:
            sent += detector.heartbeat(member)
        time.sleep(max(0, start + interval - time.monotonic()))
    counts[number] = sent


def main(arguments):
    """Watch the members, let some die, and tell who was found."""
    dead = set(random.Random(7).sample(range(arguments.members), arguments.members // 100))
    living = [member for member in range(arguments.members) if member not in dead]
    with pywheel.ThreadTimers() as timers:
        detector = Detector(timers, arguments.timeout, arguments.members)
        start = timers.time()
        print(f"{arguments.members} members, {len(dead)} of them dead; timeout {arguments.timeout:g} s")
        counts = [0] * arguments.threads
        senders = [
            threading.Thread(
                target=beat,
                args=(
                    detector,
                    living[number :: arguments.threads],
                    arguments.timeout / 4,
                    time.monotonic() + arguments.seconds,
                    counts,
                    number,
                ),
            )
            for number in range(arguments.threads)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        found = dict(detector.suspected)
        print(f"{sum(counts)} heartbeats in {arguments.seconds:g} s, {len(timers)} members alive")
    times = sorted(found.values())
    print(f"{len(dead & found.keys())} of the {len(dead)} dead were found, {len(found.keys() - dead)} by mistake")
    if times:
        print(f"the last of them {times[-1] - start:.3f} s after the start")


def parse():
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=100_000, help="how many (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=2.0, help="seconds of silence (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long it runs (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="that receive heartbeats (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    main(parse())
