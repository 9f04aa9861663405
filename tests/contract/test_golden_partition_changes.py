"""The records that change partitions are those of Kafka.

`partition_changes.jsonl` holds random partitions, targets and unfenced brokers with what the PartitionChangeBuilder of
Apache Kafka 4.3.0 made of them. A replica lies in the directory with the id 1000 + its broker's id.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from crabka.controller.decisions.partition_change import (
    ChangeRules,
    Election,
    PartitionPlace,
    PartitionTarget,
    build_partition_change,
)
from crabka.ids import DIRECTORY_MIGRATING
from crabka.metadata.features import DIRECTORIES_LEVEL
from crabka.metadata.records import PartitionChangeRecord
from crabka.metadata.topics import PartitionImage
from tests.support.recorded.files import GOLDEN

CASES = [json.loads(line) for line in (GOLDEN / "controller/partition_changes.jsonl").read_text().splitlines()]
PLACE = PartitionPlace(uuid.UUID(int=7), 3)


def directory(broker_id: int) -> uuid.UUID:
    return uuid.UUID(int=1000 + broker_id)


def partition_of(given: dict[str, Any]) -> PartitionImage:
    directories = tuple(map(directory, given["replicas"]))
    if given["metadata_version"] < DIRECTORIES_LEVEL:
        directories = (DIRECTORY_MIGRATING,) * len(directories)
    names = ("replicas", "isr", "adding", "removing", "elr", "last_known_elr")
    return PartitionImage(
        **{name: tuple(given[name]) for name in names},
        leader=given["leader"],
        leader_epoch=5,
        partition_epoch=10,
        directories=directories,
        leader_recovery_state=given["leader_recovery_state"],
    )


def our_record(given: dict[str, Any], partition: PartitionImage) -> PartitionChangeRecord | None:
    unclean = given["unclean_replica"]
    target = PartitionTarget(
        isr=given["wanted_isr"],
        replicas=given["wanted_replicas"],
        removing=given["wanted_removing"],
        adding=given["wanted_adding"],
        unclean_replica=None if unclean < 0 else unclean,
        election=Election[given["election"]],
    )
    rules = ChangeRules(
        can_lead=set(given["living"]).__contains__,
        default_directory=directory,
        metadata_version=given["metadata_version"],
        min_isr=given["min_isr"],
        elr_enabled=given["elr_enabled"],
    )
    return build_partition_change(PLACE, partition, target, rules)


def kafkas_record(record: dict[str, Any] | None) -> PartitionChangeRecord | None:
    if record is None:
        return None
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
    }
    if "directories" in fields:
        fields["directories"] = tuple(uuid.UUID(int=each) for each in fields["directories"])
    if fields.get("last_known_elr") == (-1,):
        # Kafka remembers "none" as the last leader of a partition that has had none for long.
        del fields["last_known_elr"]
    return PartitionChangeRecord(topic_id=PLACE.topic_id, partition_id=PLACE.partition_id, **fields)


def eligible(partition: PartitionImage, record: PartitionChangeRecord | None) -> PartitionImage:
    """Return the partition after a record; replicas that it drops are not eligible, which Kafka leaves open."""
    after = partition if record is None else partition.merge(record)
    known = set(after.replicas)
    return replace(after, elr=tuple(each for each in after.elr if each in known))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_partition_becomes_what_kafka_makes_of_it(number: int) -> None:
    case = CASES[number]
    partition = partition_of(case["given"])
    ours, kafkas = our_record(case["given"], partition), kafkas_record(case["record"])
    assert (ours is None) == (kafkas is None)
    assert eligible(partition, ours) == eligible(partition, kafkas)


def test_the_cases_cover_what_matters() -> None:
    records = [case["record"] or {} for case in CASES]
    for field in ("isr", "leader", "replicas", "eligible_leader_replicas", "last_known_elr", "leader_recovery_state"):
        assert sum(field in record for record in records) > 10, field
    assert sum(not record for record in records) > 10
