"""A process that copies a topic with transactions while nodes fail, and the handle by which a test runs it.

Each transaction takes what one call of the consumer gives, writes it to the same partition of the other topic and
commits the positions with it. Whatever a transaction meets, it is aborted and begun again from what is committed; a
producer that may not go on (fenced, or by an error of the library) is replaced by a new one of the same name, as an
application does that is started again. So the copy must be equal to the original, record by record.

librdkafka's send_offsets_to_transaction may wait without a limit when the node that coordinates the group goes
meanwhile, whatever timeout it was given (librdkafka #5511, docs/COMPATIBILITY.md). Connections that are closed when
they are idle for a short time let it go on; a call that takes far longer than it may all the same starts the whole
program again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.cluster_process.load import QUICK_CLIENT

if TYPE_CHECKING:
    from pathlib import Path

CALL_SECONDS = 20.0
MOST_RECORDS = 500
SHORT_IDLE_MS = 4_000
END_SECONDS = 180.0
STUCK_SECONDS = 2 * CALL_SECONDS


class TopicCopy:
    """Copies partitions of one topic to the same partitions of another, from where the group stands."""

    def __init__(self, bootstrap: str, source: str, sink: str, partitions: list[int]) -> None:
        """Prepare the consumer; the producer comes with the first transaction."""
        self._name = f"copy-{'-'.join(map(str, partitions))}"
        self._bootstrap = bootstrap
        self._sink = sink
        self._assigned = [TopicPartition(source, partition) for partition in partitions]
        self._producer: Producer | None = None
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self._name,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                **QUICK_CLIENT,
            }
        )
        self.called_at = time.monotonic()
        self.copied_count = 0
        self.aborted_count = 0

    def step(self) -> None:
        """Copy some records in one transaction; a failure is reported and leaves everything as it was."""
        try:
            if self._producer is None:
                self._producer = self._open_producer()
                self._rewind()
            self._copy_some(self._producer)
        except KafkaException as failure:
            print(f"{self._name}: {failure}", flush=True)
            self.aborted_count += 1
            self._give_up(failure)

    def is_done(self) -> bool:
        """Whether everything that is in the source now was copied and committed."""
        try:
            committed = self._consumer.committed(self._assigned, timeout=self._begin_call())
            ends = [
                self._consumer.get_watermark_offsets(each, timeout=self._begin_call())[1] for each in self._assigned
            ]
        except KafkaException:
            return False
        return all(place.offset >= end for place, end in zip(committed, ends, strict=True))

    def _begin_call(self) -> float:
        """Note that a call begins, and return how long it may take."""
        self.called_at = time.monotonic()
        return CALL_SECONDS

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _open_producer(self) -> Producer:
        settings = {
            "transactional.id": self._name,
            "transaction.timeout.ms": 30_000,
            "linger.ms": 2,
            "connections.max.idle.ms": SHORT_IDLE_MS,
        }
        limits = {"request.timeout.ms": 5000, "socket.timeout.ms": 10_000, "message.timeout.ms": 25_000}
        producer = Producer({"bootstrap.servers": self._bootstrap, **QUICK_CLIENT, **settings, **limits})
        producer.init_transactions(self._begin_call())
        return producer

    def _rewind(self) -> None:
        committed = self._consumer.committed(self._assigned, timeout=self._begin_call())
        starts = [TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in committed]
        self._consumer.assign(starts)

    def _copy_some(self, producer: Producer) -> None:
        self._begin_call()
        messages = self._consumer.consume(MOST_RECORDS, timeout=0.2)
        records = [message for message in messages if message.error() is None]
        if not records:
            return
        producer.begin_transaction()
        for record in records:
            producer.produce(self._sink, record.value(), partition=record.partition() or 0)
        moved = [place for place in self._consumer.position(self._assigned) if place.offset >= 0]
        producer.send_offsets_to_transaction(moved, self._consumer.consumer_group_metadata(), self._begin_call())
        producer.commit_transaction(self._begin_call())
        self.copied_count += len(records)

    def _give_up(self, failure: KafkaException) -> None:
        error = failure.args[0]
        if self._producer is not None and error.txn_requires_abort():
            try:
                self._producer.abort_transaction(self._begin_call())
                self._rewind()
            except KafkaException as refusal:
                print(f"{self._name}: cannot abort: {refusal}", flush=True)
            else:
                return
        # Also after a call that ran out of time: whether it committed only the committed positions can show.
        self._producer = None


def main(arguments: list[str]) -> int:
    """Copy until standard input ends and everything is copied: bootstrap servers, source, sink, partitions."""
    bootstrap, source, sink, *partitions = arguments
    copy = TopicCopy(bootstrap, source, sink, [int(partition) for partition in partitions])
    ending = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ending,), daemon=True).start()
    threading.Thread(target=_start_again_when_stuck, args=(copy, arguments), daemon=True).start()
    deadline = float("inf")
    while not (ending.is_set() and copy.is_done()):
        copy.step()
        if ending.is_set():
            deadline = min(deadline, time.monotonic() + END_SECONDS)
        if time.monotonic() > deadline:
            print("gave up", flush=True)
            return 1
    copy.close()
    print(f"copied {copy.copied_count} records, began {copy.aborted_count} times again", flush=True)
    return 0


def _wait_for_end(ending: threading.Event) -> None:
    sys.stdin.read()
    ending.set()


def _start_again_when_stuck(copy: TopicCopy, arguments: list[str]) -> None:
    while (left := copy.called_at + STUCK_SECONDS - time.monotonic()) > 0:
        time.sleep(left)
    print("a call does not end: starting again", flush=True)
    os.execv(sys.executable, [sys.executable, "-m", __spec__.name, *arguments])  # noqa: S606 - the same program


class CopierProcess:
    """A running copier of some partitions."""

    def __init__(self, directory: Path, bootstrap: str, source: str, sink: str, partitions: list[int]) -> None:
        """Start the process."""
        self.output = directory / f"copier-{partitions[0]}.out"
        command = [sys.executable, "-m", "tests.support.cluster_process.copier", bootstrap, source, sink]
        command += [str(partition) for partition in partitions]
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)

    def finish(self) -> str:
        """Wait until all is copied that the source holds now; returns the last line, raises AssertionError."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(END_SECONDS + 60)
        said = self.output.read_text()
        assert code == 0, said[-3000:]
        return said.splitlines()[-1]

    def kill(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
