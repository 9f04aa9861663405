"""Sequential reads: a consumer, and what is compared with it, GETs whose bytes go to a socket.

`python -m bench.tier_reads <bootstrap> <records> <MB/s>` reads the tiered topic over and over at a pace.
"""

from __future__ import annotations

import multiprocessing
import socket
import sys
import time
from collections.abc import Iterator

import obstore
from confluent_kafka import Consumer, Message, TopicPartition
from obstore.store import S3Store

from bench.loads import arriving
from bench.tier_nodes import TIERED, VALUE_BYTES

GET_BYTES = 8 << 20
READING = "reading"


def consume_tiered(bootstrap: str, count: int) -> float:
    """Read the topic from its start to its end; returns bytes per second, from when the first records are there.

    How long a client takes to connect and to learn who leads says nothing about the tier.
    """
    arriving = _messages_of(bootstrap, count)
    next(arriving)
    begin = time.perf_counter()
    seen = sum(len(messages) for messages in arriving)
    return seen * VALUE_BYTES / (time.perf_counter() - begin)


def _messages_of(bootstrap: str, count: int) -> Iterator[list[Message]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    large = {"fetch.message.max.bytes": 1 << 20, "queued.max.messages.kbytes": 1 << 16}
    consumer = Consumer({**settings, **large})
    consumer.assign([TopicPartition(TIERED, 0, 0)])
    yield from arriving(consumer, count, at_once=256, timeout_s=30)
    consumer.close()


def get_all(store: S3Store, keys: list[str]) -> tuple[int, float]:
    """GET objects range by range and write all to a process that reads a socket; returns bytes and seconds."""
    here, there = socket.socketpair()
    reader = multiprocessing.get_context("fork").Process(target=_drain, args=(here, there))
    reader.start()
    there.close()
    total = 0
    begin = time.perf_counter()
    with here:
        for key in keys:
            size = obstore.head(store, key)["size"]
            for start in range(0, size, GET_BYTES):
                here.sendall(obstore.get_range(store, key, start=start, end=min(start + GET_BYTES, size)))
            total += size
    reader.join()
    return total, time.perf_counter() - begin


def _drain(writing_end: socket.socket, reading_end: socket.socket) -> None:
    writing_end.close()
    buffer = bytearray(1 << 20)
    while reading_end.recv_into(buffer):
        pass


def read_for_ever(bootstrap: str, count: int, megabytes_per_second: float) -> None:
    """Read the topic again and again, no faster than told."""
    begin = time.perf_counter()
    seen_bytes = 0
    while True:
        for messages in _messages_of(bootstrap, count):
            if not seen_bytes:
                print(READING, flush=True)
            seen_bytes += len(messages) * VALUE_BYTES
            ahead = seen_bytes / megabytes_per_second / 1e6 - (time.perf_counter() - begin)
            if ahead > 0:
                time.sleep(ahead)


if __name__ == "__main__":
    read_for_ever(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
