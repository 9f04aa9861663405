from __future__ import annotations

from uuid import UUID

import pytest

from crabka.errors import ConfigError
from crabka.quorum.leadership import Leadership, check_only_voter, leader_change_batch, take_leadership
from crabka.quorum.loading import LoadedMetadata
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.state_file import QuorumStateFile, read_quorum_state, write_quorum_state
from crabka.quorum.storage import MetadataStorage
from crabka.quorum.voters import VoterNode
from tests.support.golden import GOLDEN
from tests.support.golden_disk import copy_to_memory
from tests.support.metadata_logs import SINGLE, segments
from tests.support.quorum_node import DIRECTORY, LOG_DIRECTORY, VOTER, formatted_disk


def _storage() -> MetadataStorage:
    return MetadataStorage.open(formatted_disk(), DIRECTORY, MetadataLogSettings(), now_ms=1)


def test_the_first_epoch_is_one_and_is_kept_durably() -> None:
    storage = _storage()
    assert take_leadership(storage, 1) == Leadership(1, 1)
    assert read_quorum_state(storage.fs, LOG_DIRECTORY) == QuorumStateFile(leader_id=1, leader_epoch=1)


def test_the_epoch_rises_above_all_that_is_known() -> None:
    storage = _storage()
    write_quorum_state(storage.fs, LOG_DIRECTORY, QuorumStateFile(leader_id=-1, leader_epoch=8))
    assert take_leadership(storage, 1).epoch == 9
    jvm = MetadataStorage.open(copy_to_memory(GOLDEN / "single" / "d1", "/j"), "/j", MetadataLogSettings(), now_ms=1)
    jvm.fs.unlink("/j/__cluster_metadata-0/quorum-state")
    assert take_leadership(jvm, 1).epoch == 3


def test_a_quorum_of_several_nodes_cannot_be_led_alone() -> None:
    jvm = MetadataStorage.open(copy_to_memory(GOLDEN / "quorum" / "c1", "/j"), "/j", MetadataLogSettings(), now_ms=1)
    with pytest.raises(ConfigError, match=r"quorum of nodes \[1, 2, 3\]"):
        take_leadership(jvm, 1)


def test_a_voter_with_another_directory_is_another_voter() -> None:
    with pytest.raises(ConfigError, match="another directory id"):
        check_only_voter([VoterNode(1, UUID(int=5), ())], 1, UUID(int=6))
    check_only_voter([VoterNode(1, UUID(int=5), ())], 1, UUID(int=5))
    check_only_voter([], 1, UUID(int=5))


def test_the_first_leader_change_is_the_batch_that_kafka_writes() -> None:
    fs = copy_to_memory(GOLDEN / "single" / "d1", "/j")
    for path in segments(SINGLE):
        fs.unlink(f"/j/__cluster_metadata-0/{path.name}")
    for name in fs.listdir("/j/__cluster_metadata-0"):
        if name.endswith(".checkpoint") and not name.startswith("0" * 20):
            fs.unlink(f"/j/__cluster_metadata-0/{name}")
    storage = MetadataStorage.open(fs, "/j", MetadataLogSettings(), now_ms=1)
    golden = segments(SINGLE)[0].read_bytes()[:174]
    timestamp = int.from_bytes(golden[27:35], "big")
    assert leader_change_batch(Leadership(1, 1), storage.loaded, base_offset=0, now_ms=timestamp) == golden


def test_later_leader_changes_do_not_repeat_the_voters() -> None:
    loaded = LoadedMetadata(kraft_version=1, voters=(VOTER,))
    first = leader_change_batch(Leadership(1, 1), loaded, base_offset=0, now_ms=1)
    later = leader_change_batch(Leadership(1, 2), loaded, base_offset=10, now_ms=1)
    assert len(later) < len(first)
