"""Reads a whole partition, from wherever its log starts and its records lie."""

from __future__ import annotations

import contextlib
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.nodes.process import NodeError, wait_until


def read_from_start(bootstrap: str, topic: str, *, timeout_s: float = 120) -> tuple[int, list[bytes]]:
    """Return the log start of a topic's only partition and all values from there to the end."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False, "log_level": 0}
    )
    partition = TopicPartition(topic, 0)

    def offsets() -> tuple[int, int] | None:
        with contextlib.suppress(KafkaException):
            found: tuple[int, int] = consumer.get_watermark_offsets(partition, timeout=5)
            return found
        return None

    try:
        found = wait_until(offsets, "offsets are known", timeout_s=timeout_s)
        assert found is not None
        start, end = found
        consumer.assign([TopicPartition(topic, 0, start)])
        values: list[bytes] = []
        deadline = time.monotonic() + timeout_s
        while start + len(values) < end:
            for message in consumer.consume(500, 0.2):
                failure = message.error()
                if failure is not None:
                    raise NodeError(f"a fetch failed: {failure}")
                assert message.offset() == start + len(values)
                values.append(message.value() or b"")
            if time.monotonic() > deadline:
                raise NodeError(f"read only {len(values)} of [{start}, {end})")
        return start, values
    finally:
        consumer.close()
