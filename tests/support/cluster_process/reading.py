"""Reads what clients may see at the end: the committed records of every partition, with their offsets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TIMEOUT_S = 120.0
Stored = list[list[tuple[int, bytes]]]


def read_committed(admin: AdminClient, bootstrap: str, topic: str, partitions: int) -> Stored:
    """(offset, value) of each committed record of each partition, once no transaction is open any more."""
    places = [TopicPartition(topic, partition) for partition in range(partitions)]

    def settled() -> bool:
        try:
            stable = _ends(admin, places, IsolationLevel.READ_COMMITTED)
            return stable == _ends(admin, places, IsolationLevel.READ_UNCOMMITTED)
        except KafkaException:
            # A leader has changed, and the client would ask with the epoch that it knew until its metadata are too old.
            admin.list_topics(topic, timeout=TIMEOUT_S)
            return False

    wait_until(settled, f"all transactions of {topic} have ended", timeout_s=TIMEOUT_S)
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: Stored = [[] for _ in range(partitions)]
    ended: set[int] = set()
    heard = time.monotonic()
    while len(ended) < partitions:
        messages = consumer.consume(5000, timeout=0.1)
        heard = time.monotonic() if messages else heard
        assert time.monotonic() < heard + TIMEOUT_S, f"nothing more came from {topic}"
        for message in messages:
            error, partition = message.error(), message.partition() or 0
            if error is None:
                found[partition].append((message.offset() or 0, message.value() or b""))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
            else:
                raise KafkaException(error)
    consumer.close()
    return found


def _ends(admin: AdminClient, places: list[TopicPartition], isolation: IsolationLevel) -> list[int]:
    asked = admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=isolation)
    return [int(asked[place].result(TIMEOUT_S).offset) for place in places]
