"""Calls about log dirs, against brokers that answer as a test says."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ReplicaInfo
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.admin import with_admin
from tests.support.clients.scripted_broker import ReceivedRequest
from tests.support.clients.simulation import ClientSimulation


def dirs(request: ReceivedRequest) -> Any:
    new = request.types.new
    replica = new("DescribeLogDirsPartition", partition_index=1, partition_size=10, offset_lag=3, is_future_key=True)
    topic = new("DescribeLogDirsTopic", name="t", partitions=[replica])
    ok = new(
        "DescribeLogDirsResult",
        error_code=ErrorCode.none,
        log_dir="/d1",
        topics=[topic],
        total_bytes=99,
        usable_bytes=9,
        is_cordoned=True,
    )
    gone = new("DescribeLogDirsResult", error_code=ErrorCode.kafka_storage_error, log_dir="/d2", topics=[])
    return request.types.message(throttle_time=0, error_code=ErrorCode.none, results=[ok, gone])


@run_with(with_admin, DESCRIBE_LOG_DIRS=dirs)
async def test_log_dirs_that_work_are_described(admin: Admin, /) -> None:
    (found,) = await admin.log_dirs.describe(1)
    assert (found.path, found.total_bytes, found.usable_bytes) == ("/d1", 99, 9)
    assert (found.is_cordoned, found.is_online) == (True, True)
    assert found.replicas == {("t", 1): ReplicaInfo(10, 3, is_future=True)}


@run_with(with_admin, DESCRIBE_LOG_DIRS=dirs)
async def test_log_dirs_that_failed_are_described_on_demand(admin: Admin, /) -> None:
    found = await admin.log_dirs.describe(1, include_failed=True)
    assert [(each.path, each.is_online) for each in found] == [("/d1", True), ("/d2", False)]


def test_a_refusal_to_describe_is_raised() -> None:
    def refuse(request: ReceivedRequest) -> Any:
        return request.types.message(throttle_time=0, error_code=ErrorCode.cluster_authorization_failed, results=[])

    async def test(admin: Admin, _: ClientSimulation) -> None:
        with pytest.raises(OperationError, match="log dirs of broker 1"):
            await admin.log_dirs.describe(1)

    with_admin(test, DESCRIBE_LOG_DIRS=refuse)


def test_moves_are_sent_by_target_and_their_first_error_is_raised() -> None:
    asked: list[Any] = []

    def answer(request: ReceivedRequest) -> Any:
        asked.append(request.body)
        new = request.types.new
        codes = {0: ErrorCode.none, 1: ErrorCode.log_dir_not_found, 2: ErrorCode.none}
        rows = [
            new("AlterReplicaLogDirPartitionResult", partition_index=index, error_code=code)
            for index, code in codes.items()
        ]
        topic = new("AlterReplicaLogDirTopicResult", topic_name="t", partitions=rows)
        return request.types.message(throttle_time=0, results=[topic])

    async def test(admin: Admin, _: ClientSimulation) -> None:
        targets = {TopicPartition("t", 0): "/a", TopicPartition("t", 1): "/b", TopicPartition("t", 2): "/a"}
        with pytest.raises(OperationError, match="t-1: log_dir_not_found"):
            await admin.log_dirs.move_replicas(1, targets)

    with_admin(test, ALTER_REPLICA_LOG_DIRS=answer)
    ((first, second),) = [each.dirs for each in asked]
    assert (first.path, first.topics[0].partitions) == ("/a", (0, 2))
    assert (second.path, second.topics[0].partitions) == ("/b", (1,))
