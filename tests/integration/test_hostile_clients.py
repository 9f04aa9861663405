"""Hostile clients on a real node: bombs, pipelining, slow readers and writers, half frames, many connections, nulls.

During each attack a good client writes one record after the other. After it the node lives, the good client was served
throughout, and the resident memory stayed within (docs/operations/memory.md):

    base                                            what the node has when it is idle
    + queued.max.request.bytes                      unfinished frames, large requests without a response
    + socket.request.max.bytes                      the frame that moves to larger memory
    + 2 x max(64 MiB, 16 x max.message.bytes)       batches that are decompressed
    + 128 KiB per connection                        the connection, and requests that it has read ahead
    + 2 MiB per connection that does not read       responses
    + 32 MiB                                        what the allocator keeps

The longest wait of the good client is printed and not asserted: it depends on the machine. `CRABKA_SOAK=1` makes all
numbers large. Frames of other APIs are plugged in at `tests.support.faults.hostile.FRAME_SOURCES`.
"""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING

import psutil
import pytest

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.records.compression import NONE
from tests.support.clients.raw_request import ask
from tests.support.faults.bombs import CODECS, MEBIBYTE, bomb, produce_frame, produced_error
from tests.support.faults.hostile import (
    API_VERSIONS,
    FRAME_SOURCES,
    GOOD_TOPIC,
    Pipeliner,
    Siege,
    call,
    connect,
    many_descriptors,
    read_frame,
    send_each,
    send_what_fits,
)
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.nodes.process import wait_until
from tests.support.nodes.sim_node import row
from tests.support.scale import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME_BYTES = scaled(8, 100) * MEBIBYTE
QUEUED_BYTES = scaled(24, 256) * MEBIBYTE
MESSAGE_BYTES = 400_000
TOPICS = {
    GOOD_TOPIC: {},
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "recompressed": {"compression.type": "uncompressed"},
}
# Snappy packs 21 to one at best.
BOMB_BYTES = {"gzip": 64, "snappy": 8, "lz4": 64, "zstd": scaled(128, 1024)}


@pytest.fixture(scope="module")
def siege(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Siege]:
    settings = {
        "auto.create.topics.enable": "false",
        "socket.request.max.bytes": str(FRAME_BYTES),
        "queued.max.request.bytes": str(QUEUED_BYTES),
        "message.max.bytes": str(MESSAGE_BYTES),
    }
    with CrabkaProcess(tmp_path_factory.mktemp("hostile"), settings) as node:
        ask(node.port, ApiKey.CREATE_TOPICS, 7, topics=[_topic(name) for name in TOPICS], timeout=30_000)
        base_bytes = int(psutil.Process(node.pid).memory_info().rss)
        under_siege = Siege(node, base_bytes, QUEUED_BYTES, FRAME_BYTES, MESSAGE_BYTES)
        yield under_siege
        print("\n" + "\n".join(under_siege.reports))


def _topic(name: str) -> object:
    configs = [row("CreatableTopicConfig", name=key, value=value) for key, value in TOPICS[name].items()]
    return row("CreatableTopic", name=name, num_partitions=1, replication_factor=1, assignments=[], configs=configs)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("topic", ["compacted", "recompressed"])
def test_bombs_are_refused_one_by_one_and_many_at_once(siege: Siege, topic: str, codec: str) -> None:
    frame = produce_frame(topic, bomb(CODECS[codec], BOMB_BYTES[codec] * MEBIBYTE))
    count = scaled(6, 100)
    with siege.under_watch(f"{codec} bombs, {topic}", count), contextlib.ExitStack() as stack:
        one = stack.enter_context(connect(siege.node))
        for _ in range(count):
            assert produced_error(topic, call(one, frame)) == int(ErrorCode.message_too_large)
        connections = [stack.enter_context(connect(siege.node)) for _ in range(count)]
        for connection in connections:
            connection.sendall(frame)
        for connection in connections:
            assert produced_error(topic, read_frame(connection)) == int(ErrorCode.message_too_large)


def test_a_stored_bomb_does_no_harm_when_it_is_searched_by_time(siege: Siege) -> None:
    """Plain topics take batches as they are, as in Kafka. Looking for a time in them decompresses."""
    frame = produce_frame("plain", bomb(CODECS["zstd"], 128 * MEBIBYTE))
    partition = row("ListOffsetsPartition", partition_index=0, timestamp=0, current_leader_epoch=-1)
    topics = [row("ListOffsetsTopic", name="plain", partitions=[partition])]
    with siege.under_watch("a stored bomb searched by time"), connect(siege.node) as connection:
        assert produced_error("plain", call(connection, frame)) == 0
        for _ in range(scaled(3, 50)):
            answer = ask(siege.node.port, ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=topics)
            assert answer.topics[0].partitions[0].error_code is ErrorCode.message_too_large


@pytest.mark.parametrize("count", [1, 20, 200])
def test_pipelining_connections_do_not_starve_others(siege: Siege, count: int) -> None:
    with siege.under_watch(f"{count} pipelining", count) as good, many_descriptors():
        with Pipeliner(siege.node, count) as attack:
            good.await_rounds(scaled(40, 2_000))
        assert attack.received_bytes > 0


def test_slow_readers_and_writers_cost_little(siege: Siege) -> None:
    count = scaled(20, 200)
    requests = API_VERSIONS * 20_000
    with (
        many_descriptors(),
        siege.under_watch(f"{count} slow readers and writers", 2 * count, count) as good,
        contextlib.ExitStack() as stack,
    ):
        readers = [stack.enter_context(connect(siege.node)) for _ in range(count)]
        writers = [stack.enter_context(connect(siege.node)) for _ in range(count)]
        for reader in readers:
            send_what_fits(reader, requests)
        for byte in API_VERSIONS:
            for writer in writers:
                writer.sendall(bytes((byte,)))
            good.await_rounds(2)
        for writer in writers:
            assert read_frame(writer)[:4] == struct.pack(">i", 7)


def test_half_frames_wait_and_a_large_request_gets_through(siege: Siege) -> None:
    """The frames alone would hold more than the limit; those that stand still lose their memory to who waits."""
    count = scaled(3, 20)
    half = struct.pack(">i", FRAME_BYTES) + bytes(FRAME_BYTES * 2 // 3)
    large = produce_frame("plain", bomb(NONE, FRAME_BYTES - 1000))
    with (
        many_descriptors(),
        siege.under_watch(f"{count} half frames of {FRAME_BYTES // MEBIBYTE} MiB", 100 * count) as good,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(count):
            send_what_fits(stack.enter_context(connect(siege.node)), half)
        for _ in range(50 * count):
            stack.enter_context(connect(siege.node)).sendall(half[:5_000])
        good.await_rounds(10)
        other = stack.enter_context(connect(siege.node))
        assert produced_error("plain", call(other, large)) == int(ErrorCode.message_too_large)
    assert "an unfinished request did not go on" in siege.node.stderr_text()


def test_connections_that_come_and_go_leave_nothing(siege: Siege) -> None:
    count = scaled(500, 5_000)
    with many_descriptors(), siege.under_watch(f"{count} connections opened and closed", count) as good:
        for _ in range(scaled(1, 5)):
            with contextlib.ExitStack() as stack:
                for _ in range(count):
                    stack.enter_context(connect(siege.node))
                good.await_rounds(5)
            wait_until(lambda: _held_count(siege) < 20, "all are closed", poll_s=0.05)


def _held_count(siege: Siege) -> int:
    connections = psutil.Process(siege.node.pid).net_connections("tcp")
    return sum(connection.status != psutil.CONN_LISTEN for connection in connections)


@pytest.mark.parametrize("source", FRAME_SOURCES)
def test_frames_that_no_honest_peer_sends(siege: Siege, source: str) -> None:
    with siege.under_watch(source):
        assert send_each(siege.node, FRAME_SOURCES[source]()) > 100
    assert "Traceback" not in siege.node.stderr_text(), siege.node.last_output()


def test_a_node_that_is_killed_under_attack_starts_from_what_it_stored(siege: Siege) -> None:
    node = siege.node
    with contextlib.ExitStack() as stack:
        with siege.under_watch("all at once", 100, 20) as good:
            stack.enter_context(Pipeliner(node, 20))
            for codec in CODECS.values():
                stack.enter_context(connect(node)).sendall(produce_frame("compacted", bomb(codec, 8 * MEBIBYTE)))
                stack.enter_context(connect(node)).sendall(produce_frame("plain", bomb(codec, 8 * MEBIBYTE)))
            for _ in range(10):
                send_what_fits(stack.enter_context(connect(node)), struct.pack(">i", FRAME_BYTES) + bytes(100_000))
            good.await_rounds(10)
        node.kill()
    node.start()
    # The good client goes on with the offset after the last that was acknowledged.
    with siege.under_watch("after the restart"):
        pass
