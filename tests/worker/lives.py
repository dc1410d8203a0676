"""The life of a worker process, from the lines of the ledger."""

from collections import defaultdict

from tests.worker.intervals import NEVER, crowded, less, union

__all__ = ["Life"]


class Life:
    """A worker process, as the ledger has it."""

    def __init__(self, comes):
        self.pid, self.topics = comes["pid"], comes["topics"]
        self.ready = self.end = NEVER  # at work from, until
        self.died = NEVER  # when nothing of it can go on any more
        self.culprit = None  # the job that killed it
        self.told_to_go = NEVER
        self.stops = []
        self.runs = defaultdict(list)

    def learn(self, line):
        """Take in what happened to it."""
        word, wall = line["word"], line["wall"]
        if word == "ready":
            self.ready = wall
        elif word == "continues":
            self.stops.append((line["since"], wall))
        elif word == "drains":
            self.end = self.told_to_go = min(wall, self.end)
        else:
            self.end, self.died = min(wall, self.end), min(wall, self.died)
            self.culprit = line.get("id", self.culprit)

    def rooms(self, topic):
        """Return when it had room for a topic."""
        full = crowded(self.runs[topic], self.topics[topic])
        return less(less([(self.ready, self.end)], union(self.stops)), full)

    def stopped(self, begin, end):
        return any(since < end and until > begin for since, until in self.stops)
