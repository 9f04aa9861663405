"""Random topics of all kinds by hypothesis: what is written to them, and how."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka import Producer
from hypothesis import strategies as st

from crabka.clients import SyncAdmin
from crabka.ids import TopicPartition
from tests.support.spark.topics import (
    BASE_MS,
    CODECS,
    TIME_SPAN_MS,
    Place,
    create_tiered_topic,
    create_topic,
)

PARTITIONS = 2
_WAIT_S = 120


class TopicKind(StrEnum):
    """What becomes of the records of a topic."""

    PLAIN = "plain"
    APPEND_TIME = "append time"
    COMPACTED = "compacted"
    TIERED = "tiered"


@dataclass(frozen=True)
class PlannedRecord:
    """One record."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]
    timestamp: int


@dataclass(frozen=True)
class PlannedBatch:
    """Records that are sent together: without a transaction, or in one that is committed or aborted."""

    codec: str
    is_committed: bool | None
    records: list[PlannedRecord]


@dataclass(frozen=True)
class PlannedTopic:
    """A topic. The first records of a partition are deleted, unless that is 0."""

    kind: TopicKind
    batches: list[PlannedBatch]
    deleted: int


@st.composite
def topic_plans(draw: st.DrawFn) -> PlannedTopic:
    """Draw a topic; compaction refuses records without keys, and DeleteRecords is not used with it."""
    kind = draw(st.sampled_from(list(TopicKind)))
    keys: st.SearchStrategy[bytes | None] = st.sampled_from([b"k%d" % number for number in range(4)])
    if kind is not TopicKind.COMPACTED:
        keys = st.one_of(keys, st.none(), st.just(b""))
    records = st.builds(
        PlannedRecord,
        st.integers(0, PARTITIONS - 1),
        keys,
        st.one_of(st.none(), st.binary(max_size=12), st.integers(20, 200).map(lambda size: b"v" * size)),
        st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.binary(max_size=9))), max_size=3),
        st.integers(BASE_MS, BASE_MS + TIME_SPAN_MS),
    )
    batches = st.builds(
        PlannedBatch,
        st.sampled_from(CODECS),
        st.sampled_from([None, None, True, False]),
        st.lists(records, min_size=1, max_size=20),
    )
    deleted = 0 if kind is TopicKind.COMPACTED else draw(st.sampled_from([0, 0, 0, 3]))
    return PlannedTopic(kind, draw(st.lists(batches, min_size=2, max_size=12)), deleted)


def make_topic(place: Place, topic: str, plan: PlannedTopic) -> None:
    """Create the topic and write what is planned, each batch after the one before."""
    if plan.kind is TopicKind.TIERED:
        create_tiered_topic(place, topic, PARTITIONS)
    elif plan.kind is TopicKind.COMPACTED:
        create_topic(
            place, topic, PARTITIONS, cleanup_policy="compact", segment_ms="200", min_cleanable_dirty_ratio="0.01"
        )
    else:
        of_brokers = plan.kind is TopicKind.APPEND_TIME
        create_topic(place, topic, PARTITIONS, message_timestamp_type="LogAppendTime" if of_brokers else "CreateTime")
    producers: dict[str | None, Producer] = {}
    for batch in plan.batches:
        kind = None if batch.is_committed is not None else batch.codec
        if kind not in producers:
            producers[kind] = _producer(place, topic, kind)
        producer = producers[kind]
        if kind is None:
            producer.begin_transaction()
        for record in batch.records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=record.headers,
                timestamp=record.timestamp,
            )
        assert producer.flush(_WAIT_S) == 0
        if batch.is_committed is not None:
            (producer.commit_transaction if batch.is_committed else producer.abort_transaction)(_WAIT_S)
    in_first = sum(record.partition == 0 for batch in plan.batches for record in batch.records)
    if plan.deleted and in_first >= plan.deleted:
        with SyncAdmin(place.bootstrap) as admin:
            admin.delete_records({TopicPartition(topic, 0): plan.deleted})


def _producer(place: Place, topic: str, codec: str | None) -> Producer:
    """Return a producer with a codec, or without one, for transactions."""
    if codec is not None:
        return Producer({"bootstrap.servers": place.bootstrap, "compression.type": codec, "linger.ms": 5})
    transactional = Producer({"bootstrap.servers": place.bootstrap, "transactional.id": topic})
    transactional.init_transactions(_WAIT_S)
    return transactional
