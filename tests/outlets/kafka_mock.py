"""Kafka as librdkafka's own mock cluster plays it: Debian and PyPI have no real one."""

from __future__ import annotations

import ctypes
import time

import confluent_kafka

__all__ = ["Mock", "end_for_good"]


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


def end_for_good(producer):
    """Have librdkafka give up a producer, as after an answer of Kafka that idempotence cannot survive."""
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)  # symbols are also searched in the libraries that it loads
    handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__)  # the first field of the object
    assert library.rd_kafka_test_fatal_error(handle, confluent_kafka.KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, b"") == 0
