"""A consumer that reads one partition all the time, and notices gaps, repetitions and errors."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class SteadyReader:
    """Reads partition 0 of a topic from offset 0 in a thread of its own, while the block runs."""

    def __init__(self, bootstrap: str, topic: str, *, isolation: str = "read_uncommitted") -> None:
        """Prepare; nothing is read before the block."""
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            # A position that is not there any more is an error, never a leap.
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader-{topic}")
        self.values: list[bytes] = []
        self.offsets: list[int] = []
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        while not self._stopping.is_set():
            for message in consumer.consume(1000, timeout=0.1):
                failure = message.error()
                if failure is not None:
                    self.errors.append(str(failure))
                    continue
                self.offsets.append(message.offset() or 0)
                self.values.append(message.value() or b"")
        consumer.close()
