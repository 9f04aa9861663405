"""Fetch requests and their answers as plain values. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from crabka.clients.cluster.connection import BodyBuilder
from crabka.clients.fetcher.isolation import AbortedSpan
from crabka.ids import ZERO_UUID, TopicPartition
from crabka.protocol.apis import MessageTypes
from crabka.protocol.error_codes import ErrorCode

LAST_FETCH_VERSION_WITH_NAMES = 12
NO_SESSION_ID = 0
NO_SESSION_EPOCH = -1
CLIENT_REPLICA_ID = -1


class FetchLimits(Protocol):
    """The part of a fetcher's settings that goes into a request."""

    @property
    def max_wait_ms(self) -> int:
        """How long the broker may wait for `min_bytes`."""
        ...

    @property
    def min_bytes(self) -> int:
        """The bytes that the broker waits for."""
        ...

    @property
    def max_bytes(self) -> int:
        """The limit of a response; one batch may be larger."""
        ...

    @property
    def partition_max_bytes(self) -> int:
        """The limit of one partition."""
        ...

    @property
    def read_committed(self) -> bool:
        """Whether to stop at the last stable offset."""
        ...


class FetchTarget(NamedTuple):
    """A partition to fetch: offset, and epoch of the leader.

    With the epoch of the record before the offset the leader verifies that its log has this record (KIP-595).
    """

    partition: TopicPartition
    offset: int
    leader_epoch: int
    last_fetched_epoch: int = -1


class DivergingEpoch(NamedTuple):
    """The largest epoch of the leader's log up to the requested one, and its end there.

    Records of the client with a later epoch, or from this offset on, are not in the leader's log.
    """

    epoch: int
    end_offset: int


class FetchAnswer(NamedTuple):
    """The answer of a broker for a partition."""

    error_code: ErrorCode
    high_watermark: int
    log_start_offset: int
    aborted: tuple[AbortedSpan, ...]
    records: bytes
    last_stable_offset: int = -1
    diverging: DivergingEpoch | None = None


class FetchRequest(NamedTuple):
    """The builder of a Fetch request, and the newest version that can carry it."""

    body: BodyBuilder
    max_version: int | None


def fetch_request(
    targets: Sequence[FetchTarget], limits: FetchLimits, topic_ids: Mapping[str, uuid.UUID]
) -> FetchRequest:
    """Return a full fetch without a session; topics go by id from version 13 on (KIP-516)."""
    by_topic: dict[str, list[FetchTarget]] = {}
    for target in targets:
        by_topic.setdefault(target.partition.topic, []).append(target)

    def partition(types: MessageTypes, target: FetchTarget) -> Any:
        return types.new(
            "FetchPartition",
            partition=target.partition.partition,
            current_leader_epoch=target.leader_epoch,
            fetch_offset=target.offset,
            last_fetched_epoch=target.last_fetched_epoch,
            partition_max_bytes=limits.partition_max_bytes,
        )

    def build(types: MessageTypes) -> Any:
        topics = [
            types.new(
                "FetchTopic",
                topic=topic,
                topic_id=topic_ids.get(topic),
                partitions=[partition(types, target) for target in topic_targets],
            )
            for topic, topic_targets in by_topic.items()
        ]
        return types.message(
            replica_id=CLIENT_REPLICA_ID,
            max_wait=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            isolation_level=int(limits.read_committed),
            session_id=NO_SESSION_ID,
            session_epoch=NO_SESSION_EPOCH,
            topics=topics,
            forgotten_topics_data=(),
        )

    all_ids_known = all(topic_ids.get(topic, ZERO_UUID) != ZERO_UUID for topic in by_topic)
    return FetchRequest(build, None if all_ids_known else LAST_FETCH_VERSION_WITH_NAMES)


def read_answers(response: Any, topic_ids: Mapping[str, uuid.UUID]) -> dict[TopicPartition, FetchAnswer]:
    """Return the answer for each partition of a Fetch response."""
    names = {topic_id: topic for topic, topic_id in topic_ids.items()}
    answers: dict[TopicPartition, FetchAnswer] = {}
    for topic in response.responses:
        name = getattr(topic, "topic", None) or names.get(getattr(topic, "topic_id", None) or ZERO_UUID)
        if name is None:
            continue
        for data in topic.partitions:
            aborted = tuple(AbortedSpan(a.producer_id, a.first_offset) for a in data.aborted_transactions or ())
            answers[TopicPartition(name, data.partition_index)] = FetchAnswer(
                data.error_code,
                data.high_watermark,
                getattr(data, "log_start_offset", -1),
                aborted,
                data.records or b"",
                data.last_stable_offset,
                _divergence(data),
            )
    return answers


def _divergence(data: Any) -> DivergingEpoch | None:
    found = getattr(data, "diverging_epoch", None)
    return None if found is None or found.end_offset < 0 else DivergingEpoch(found.epoch, found.end_offset)
