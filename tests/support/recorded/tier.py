"""The metadata of the tiers that Apache Kafka wrote, read from its `__remote_log_metadata` partitions."""

from __future__ import annotations

from crabka.records.header import iter_headers
from crabka.records.record import decode_records
from crabka.remote.scrub import TierHistory
from crabka.remote_topic.event_reader import MetadataEvent
from crabka.remote_topic.serde import decode_event
from tests.support.recorded.files import GOLDEN


def golden_events(name: str) -> list[MetadataEvent]:
    """Return the events of `single` or `overlap`, those of each partition in their order."""
    events: list[MetadataEvent] = []
    for path in sorted((GOLDEN / name).glob("d?/__remote_log_metadata-?/*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data):
            batch = data[position : position + header.size_in_bytes]
            events += [decode_event(record.value) for record in decode_records(batch, header) if record.value]
    return events


def golden_history(name: str) -> TierHistory:
    """Return what the events of `single` or `overlap` say."""
    history = TierHistory()
    for event in golden_events(name):
        history.apply(event)
    return history
