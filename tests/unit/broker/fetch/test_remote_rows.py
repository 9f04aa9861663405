"""Rows whose records come from the tier: an error of the tier makes a consumer try again, never reset its position."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from crabka.broker.fetch.remote_rows import remote_error_code
from crabka.broker.tiering.read.pool import ReaderBusyError
from crabka.broker.tiering.read.reader import UnknownOffsetError
from crabka.ports import FileSystem
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.remote.errors import NotReadyError, RemoteBackendError, RemoteStorageError, SegmentNotFoundError
from crabka.remote.segments import RemoteLogSegmentState
from crabka.testing.faulty_storage import FaultyStorageManager, StorageFault
from crabka.testing.memory_storage import InmemoryRemoteStorage
from crabka.testing.remote_samples import sample_segment, sample_update
from tests.support.nodes.sim_node import SimNode, batch, fetch_body, read_records
from tests.support.tiers.remote_reading import TIERED_SETTINGS, NodeTier, tiered_topic

SEGMENT_ID = sample_segment(1, (0, 1)).segment_id


@pytest.fixture
def node() -> Iterator[SimNode]:
    with SimNode(TIERED_SETTINGS) as running:
        yield running


def faulty(fs: FileSystem) -> FaultyStorageManager:
    return FaultyStorageManager(InmemoryRemoteStorage(fs))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotReadyError("not loaded"), ErrorCode.replica_not_available),
        (RemoteBackendError("away"), ErrorCode.kafka_storage_error),
        (RemoteBackendError("forbidden", retriable=False), ErrorCode.kafka_storage_error),
        (SegmentNotFoundError(SEGMENT_ID), ErrorCode.kafka_storage_error),
        (UnknownOffsetError("gone"), ErrorCode.kafka_storage_error),
        (ReaderBusyError("busy"), ErrorCode.kafka_storage_error),
    ],
)
def test_every_error_of_the_tier_makes_clients_try_again(error: RemoteStorageError, code: ErrorCode) -> None:
    assert remote_error_code(error) is code
    assert code.retriable


def test_a_store_that_fails_is_no_offset_out_of_range(node: SimNode) -> None:
    tiered_topic(node, "t")
    tier = NodeTier(node, faulty)
    tier.tier("t")
    assert isinstance(tier.storage, FaultyStorageManager)
    fault = tier.storage.add(StorageFault(operation="fetch_log_segment", error=RemoteBackendError("away")))
    found = node.fetch("t", 0, max_wait=60_000)
    assert (found.error_code, found.records) == (ErrorCode.kafka_storage_error, b"")
    assert node.loop.time() < 1  # it is returned at once
    tier.storage.remove(fault)
    assert node.fetch("t", 0).error_code is ErrorCode.none
    tier.close()


def test_metadata_that_is_not_loaded_is_no_offset_out_of_range(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    tiered_topic(node, "t")
    tier = NodeTier(node)
    tier.tier("t")

    def refuse(*_: object) -> None:
        raise NotReadyError("not loaded yet")

    monkeypatch.setattr(tier.rlmm, "remote_log_segment_metadata", refuse)
    assert node.fetch("t", 0).error_code is ErrorCode.replica_not_available
    tier.close()


def test_what_retention_took_meanwhile_is_out_of_range(node: SimNode) -> None:
    tiered_topic(node, "t")
    tier = NodeTier(node)
    start = tier.tier("t")
    log = node.context.partitions.by_name("t", 0).log
    lookup = tier.rlmm.remote_log_segment_metadata

    def expire(*args: object) -> object:
        # Between the plan of the fetch and its read the log start moves up.
        log.retention.delete_records_before(start)
        for segment in list(tier.rlmm.list_remote_log_segments(args[0])):  # type: ignore[arg-type]
            if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                gone = sample_update(segment, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
                tier.rlmm.update_remote_log_segment_metadata(gone)
        return lookup(*args)  # type: ignore[arg-type]

    tier.rlmm.remote_log_segment_metadata = expire  # type: ignore[assignment, method-assign]
    assert node.fetch("t", 0).error_code is ErrorCode.offset_out_of_range
    tier.close()


def test_a_hole_in_the_tier_is_reported_as_an_error_of_the_storage(node: SimNode) -> None:
    tiered_topic(node, "t")
    tier = NodeTier(node)
    tier.tier("t")
    tier.rlmm.remote_log_segment_metadata = lambda *_: None  # type: ignore[method-assign]
    assert node.fetch("t", 0).error_code is ErrorCode.kafka_storage_error
    tier.close()


def test_partitions_are_read_from_the_tier_at_the_same_time(node: SimNode) -> None:
    tiered_topic(node, "t", partitions=3)
    tier = NodeTier(node, faulty)
    for index in range(3):
        tier.tier("t", index)
    body = fetch_body([("t", index, index) for index in range(3)])
    (answer,) = node.ask(ApiKey.FETCH, 12, body).responses
    rows = answer.partitions
    assert [row.error_code for row in rows] == [ErrorCode.none] * 3
    assert [read_records(row.records)[0].offset for row in rows] == [0, 1, 2]
    tier.close()


def test_the_limit_of_a_request_holds_for_all_partitions_together(node: SimNode) -> None:
    tiered_topic(node, "t", partitions=3)
    tier = NodeTier(node)
    for index in range(3):
        tier.tier("t", index)
    size = len(batch(b"0 " * 80))
    body = fetch_body([("t", index, 0) for index in range(3)], max_bytes=5 * size, partition_max_bytes=3 * size)
    (answer,) = node.ask(ApiKey.FETCH, 12, body).responses
    assert [len(row.records) // size for row in answer.partitions] == [3, 2, 0]
    # A batch larger than every limit comes alone, and only as the first (KIP-74).
    body = fetch_body([("t", index, 0) for index in range(3)], max_bytes=10, partition_max_bytes=10)
    (answer,) = node.ask(ApiKey.FETCH, 12, body).responses
    assert [len(row.records) // size for row in answer.partitions] == [1, 0, 0]
    body = fetch_body([("t", index, 0) for index in range(3)], max_bytes=5 * size, partition_max_bytes=10)
    (answer,) = node.ask(ApiKey.FETCH, 12, body).responses
    assert [len(row.records) // size for row in answer.partitions] == [1, 0, 0]
    tier.close()


def test_a_fetch_that_its_client_gave_up_leaves_its_downloads_to_the_next(node: SimNode) -> None:
    tiered_topic(node, "t")
    tier = NodeTier(node, faulty)
    tier.tier("t")
    assert isinstance(tier.storage, FaultyStorageManager)
    client = node.connect()
    client.post(ApiKey.FETCH, 12, fetch_body([("t", 0, 0)]))
    node.run(asyncio.sleep(0))
    client.transport.abort()
    node.advance(100)
    before = len(tier.storage.calls)
    assert node.fetch("t", 0).records
    assert len([call for call in tier.storage.calls[before:] if call[0] == "fetch_log_segment"]) <= 7
    tier.close()


def test_batches_are_those_that_were_produced(node: SimNode) -> None:
    produced = tiered_topic(node, "t")
    tier = NodeTier(node)
    assert tier.tier("t") > 5
    assert node.values("t") == produced
    node.produce("t", batch(b"last"))
    assert node.values("t") == [*produced, b"last"]
    tier.close()
