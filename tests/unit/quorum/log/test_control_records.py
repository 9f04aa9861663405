from __future__ import annotations

from uuid import UUID

from crabka.kraft.actions import KRaftVersionChange, LeaderChange, VotersChange
from crabka.kraft.voters import VoterEndpoint, VoterNode, VoterSet
from crabka.metadata.records import NoOpRecord, encode_record
from crabka.quorum.log.control_records import control_batch, control_records
from crabka.quorum.log.survey import StoredBatch
from crabka.records.builder import build_batch
from crabka.records.control import LeaderChangeMessageV0, parse_control_record
from crabka.records.header import parse_header
from crabka.records.record import Record, decode_records
from tests.support.recorded.metadata_logs import SINGLE, segments

VOTERS = VoterSet((VoterNode(1, UUID(int=5), (VoterEndpoint("CONTROLLER", "a", 1),)),))
RECORDS = (LeaderChange(1, (1, 2, 3), (1, 3)), KRaftVersionChange(1), VotersChange(VOTERS))


def _stored(batch: bytes) -> StoredBatch:
    return StoredBatch(parse_header(batch), batch)


def test_records_of_voters_and_levels_are_found_at_their_offsets() -> None:
    batch = _stored(control_batch(RECORDS, epoch=4, base_offset=7, now_ms=10))
    assert list(control_records(batch)) == [(8, KRaftVersionChange(1)), (9, VotersChange(VOTERS))]
    assert batch.header.partition_leader_epoch == 4


def test_a_leader_change_names_voters_and_who_granted() -> None:
    batch = _stored(control_batch(RECORDS[:1], epoch=4, base_offset=0, now_ms=10))
    (record,) = decode_records(batch.data, batch.header)
    message = parse_control_record(record)
    assert isinstance(message, LeaderChangeMessageV0)
    assert message.leader_id == 1
    assert [voter.voter_id for voter in message.voters] == [1, 2, 3]
    assert [voter.voter_id for voter in message.granting_voters] == [1, 3]


def test_a_batch_of_metadata_holds_none() -> None:
    batch = build_batch([Record(0, 0, None, encode_record(NoOpRecord()))], base_offset=0, leader_epoch=1)
    assert list(control_records(_stored(batch))) == []


def test_the_first_batch_of_a_cluster_is_the_one_that_kafka_writes() -> None:
    golden = segments(SINGLE)[0].read_bytes()[:174]
    first = _stored(golden)
    records = (LeaderChange(1, (1,), (1,)), *(record for _, record in control_records(first)))
    assert control_batch(records, epoch=1, base_offset=0, now_ms=first.header.max_timestamp) == golden
