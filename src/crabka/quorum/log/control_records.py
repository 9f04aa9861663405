"""Control records of the metadata log: conversion between the core's types and record batches (KIP-595, KIP-853)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from kio.schema.leader_change_message.v0.data import Voter as LeaderChangeVoterV0
from kio.schema.types import BrokerId
from kio.static.primitive import i16

from crabka.kraft.actions import ControlRecord, KRaftVersionChange, LeaderChange, VotersChange
from crabka.kraft.voters import VoterSet
from crabka.quorum.log.survey import StoredBatch
from crabka.quorum.log.voters import kraft_version_record, voters_from_record, voters_to_record
from crabka.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessageV0,
    VotersRecord,
    build_control_batch,
    parse_control_record,
)
from crabka.records.record import decode_records


def control_batch(records: Sequence[ControlRecord], *, epoch: int, base_offset: int, now_ms: int) -> bytes:
    """Return the batch of control records that a leader appends."""
    messages = [_to_message(record) for record in records]
    return build_control_batch(messages, timestamp=now_ms, base_offset=base_offset, leader_epoch=epoch)


def control_records(batch: StoredBatch) -> Iterator[tuple[int, ControlRecord]]:
    """Yield the records of a batch that change voters or kraft.version, with their offsets."""
    if not batch.header.is_control:
        return
    for record in decode_records(batch.data, batch.header):
        message = parse_control_record(record)
        if isinstance(message, VotersRecord):
            yield record.offset, VotersChange(VoterSet(voters_from_record(message)))
        elif isinstance(message, KRaftVersionRecord):
            yield record.offset, KRaftVersionChange(message.k_raft_version)


def _to_message(record: ControlRecord) -> Any:
    match record:
        case LeaderChange(leader_id, voters, granting):
            return LeaderChangeMessageV0(
                version=i16(0),
                leader_id=BrokerId(leader_id),
                voters=tuple(LeaderChangeVoterV0(voter_id=BrokerId(node_id)) for node_id in voters),
                granting_voters=tuple(LeaderChangeVoterV0(voter_id=BrokerId(node_id)) for node_id in granting),
            )
        case KRaftVersionChange(level):
            return kraft_version_record(level)
        case VotersChange(voters):
            return voters_to_record(voters.nodes)
        case _:
            assert_never(record)
