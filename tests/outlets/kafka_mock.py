"""Kafka as librdkafka's own mock cluster plays it: Debian and PyPI have no real one."""

from __future__ import annotations

import time

import confluent_kafka

__all__ = ["Mock"]


class Mock:
    """A cluster of one broker, in this process, which other clients reach by its port."""

    def __init__(self):
        self._host = confluent_kafka.Producer({"test.mock.num.brokers": 1})
        [broker] = self._host.list_topics(timeout=30).brokers.values()
        self.servers = f"{broker.host}:{broker.port}"

    def produce(self, topic, value, key=None, headers=(), **options):
        """Write a record, and wait until it is there."""
        self._host.produce(topic, value, key, headers=list(headers), **options)
        assert self._host.flush(30) == 0

    def records(self, topic, count):
        """Return the first `count` records of a topic, once they are there."""
        options = {"bootstrap.servers": self.servers, "group.id": "look", "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer({**options, "enable.auto.commit": False})
        found = []
        try:
            end, partitions = time.monotonic() + 60, range(0)
            while len(found) < count:
                assert time.monotonic() < end, found
                if not partitions:  # nothing was written so far
                    partitions = range(len(consumer.list_topics(topic, timeout=30).topics[topic].partitions))
                    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
                found += [message for message in consumer.consume(count, 0.1) if not message.error()]
        finally:
            consumer.close()
        return found

    def committed(self, topic, group):
        """Return the offsets that a group has committed, by partition; below zero where it has none."""
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.servers, "group.id": group})
        try:
            partitions = range(len(consumer.list_topics(topic, timeout=30).topics[topic].partitions))
            asked = [confluent_kafka.TopicPartition(topic, number) for number in partitions]
            return [place.offset for place in consumer.committed(asked, timeout=30)]
        finally:
            consumer.close()
