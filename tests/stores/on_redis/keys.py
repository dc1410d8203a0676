"""The server's keys, read without the store: each job is in exactly one place."""

import json
import struct
from collections import Counter, defaultdict

__all__ = ["faults"]


def faults(client, prefix):
    """Return what is wrong with a store; [] if nothing is. Job hashes are the truth."""
    return Keys(client, "{" + prefix + "}").faults()


class Keys:
    def __init__(self, client, prefix):
        self.client, self.prefix = client, prefix
        self.kinds = defaultdict(list)
        for key in client.scan_iter(match=prefix + ":*", count=1000):
            rest = key[len(prefix) + 1 :]
            kind, colon, name = rest.partition(b":")
            if colon:  # others are of the store, not of a topic or job
                self.kinds[kind].append((key, name))
        self.jobs, self.states = {}, {}
        for kind, found in ((b"j", self.jobs), (b"s", self.states)):
            for key, chunk in self.kinds[kind]:
                for id, packed in client.hgetall(key).items():
                    assert id[:5] == chunk
                    found[id] = packed

    def faults(self):
        wrong = [f"a state without a job: {id}" for id in self.states.keys() - self.jobs.keys()]
        places = Counter()
        for kind in (b"d", b"f", b"l"):
            for key, _ in self.kinds[kind]:
                places.update(self.client.zrange(key, 0, -1))
        wrong += [f"in {places[id]} places: {id}" for id in self.jobs if places[id] != 1]
        wrong += [f"in a place and no job: {id}" for id in places.keys() - self.jobs.keys()]
        results = [id for key, _ in self.kinds[b"r"] for id in self.client.hkeys(key)]
        wrong += [f"result of no job: {id}" for id in results if id not in self.jobs]
        wrong += [f"history of no job: {name}" for _, name in self.kinds[b"h"] if self.id(name) not in self.jobs]
        return wrong + self.topics() + self.keys() + self.chunks() + self.leases() + self.ends()

    def ends(self):
        """A purge will look into all topics with jobs that ended, and for done jobs into all topics."""
        topics = {name for _, name in self.kinds[b"f"]} | {
            b"2" + topic for topic in self.client.hkeys(self.prefix + ":t")
        }
        noted = {b"%d%b" % (n, name) for n in (2, 3, 4) for name in self.client.zrange(f"{self.prefix}:f{n}", 0, -1)}
        return [f"no end of {topic}" for topic in topics - noted]

    def leases(self):
        """No lease is over before what stands for its topic; what runs with a key is in a group."""
        wrong, groups = [], Counter()
        first = dict(self.client.zrange(self.prefix + ":l", 0, -1, withscores=True))
        for key, topic in self.kinds[b"l"]:
            [(_, lease)] = self.client.zrange(key, 0, 0, withscores=True)
            wrong += [f"a lease of {topic} is over sooner"] if first.get(topic, lease + 1) > lease else []
            running = [id for id in self.client.zrange(key, 0, -1) if id in self.jobs]
            groups.update(id for id in running if self.topic_and_key(self.jobs[id])[1] is not None)
        there = [member[-6:] for key, _ in self.kinds[b"g"] for member in self.client.zrange(key, 0, -1)]
        return wrong + ([f"groups: {there}"] if groups != Counter(there) else [])

    @staticmethod
    def id(number):
        return int(number).to_bytes(6, "big")

    def topic_and_key(self, job):
        at = 9 + int.from_bytes(job[6:9], "big")
        size = int.from_bytes(job[at : at + 3], "big")
        key = json.loads(job[at + 3 : at + 3 + size] or "{}").get("key")
        return job[9:at], None if key is None else key.encode()

    def topics(self):
        known = set(self.client.hkeys(self.prefix + ":t"))
        wrong = []
        for key, name in self.kinds[b"d"]:
            topic = name.partition(b":")[2]
            wrong += [
                f"{id} is in {topic}"
                for id in self.client.zrange(key, 0, -1)
                if self.topic_and_key(self.jobs[id])[0] != topic
            ]
        there = {self.topic_and_key(job)[0] for job in self.jobs.values()}
        return wrong + [f"unknown topic {topic}" for topic in there - known]

    def keys(self):
        """Each job with a key has it, or had it."""
        holders, former = set(), set()
        for key, _ in self.kinds[b"k"]:
            holders.update(self.client.hvals(key))
        for key, _ in self.kinds[b"o"]:
            former.update(member[-6:] for member in self.client.zrange(key, 0, -1))
        keyed = {id for id, job in self.jobs.items() if self.topic_and_key(job)[1] is not None}
        return [f"keys: {ids}" for ids in (holders & former, keyed ^ (holders | former)) if ids]

    def chunks(self):
        noted = set(self.client.zrange(self.prefix + ":x", 0, -1))
        [last] = struct.unpack(">Q", b"\0\0" + self.id(self.client.get(self.prefix + ":n") or 0))
        there = {id[:5] for id in self.jobs}
        spare = noted - there - {self.id(last)[:5], self.id(0)[:5]}
        return [f"chunks: {part}" for part in (there - noted, spare) if part]
