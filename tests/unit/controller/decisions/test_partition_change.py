"""The smallest record that brings a partition to a wanted state."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import pytest

from crabka.controller.decisions.partition_change import (
    RECOVERED,
    RECOVERING,
    ChangeRules,
    Election,
    PartitionPlace,
    PartitionTarget,
    build_partition_change,
    completed_reassignment,
)
from crabka.metadata.records import PartitionChangeRecord
from crabka.metadata.topics import PartitionImage

TOPIC_ID = uuid.UUID(int=77)


def directory(broker_id: int) -> uuid.UUID:
    return uuid.UUID(int=1000 + broker_id)


def partition(
    replicas: tuple[int, ...] = (1, 2, 3), isr: tuple[int, ...] | None = None, leader: int = 1, **more: Any
) -> PartitionImage:
    return PartitionImage(
        replicas=replicas,
        isr=replicas if isr is None else isr,
        leader=leader,
        leader_epoch=5,
        partition_epoch=10,
        directories=tuple(map(directory, replicas)),
        **more,
    )


def change(
    old: PartitionImage,
    *,
    alive: Iterable[int] = (1, 2, 3, 4, 5),
    min_isr: int = 1,
    elr: bool = False,
    metadata_version: int = 30,
    **target: Any,
) -> dict[str, Any] | None:
    """Return the fields that a record sets."""
    living = set(alive)
    rules = ChangeRules(
        can_lead=living.__contains__,
        default_directory=directory,
        metadata_version=metadata_version,
        min_isr=min_isr,
        elr_enabled=elr,
    )
    record = build_partition_change(PartitionPlace(TOPIC_ID, 3), old, PartitionTarget(**target), rules)
    if record is None:
        return None
    assert (record.topic_id, record.partition_id) == (TOPIC_ID, 3)
    empty = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=3)
    fields = type(record).__dataclass_fields__
    return {name: getattr(record, name) for name in fields if getattr(record, name) != getattr(empty, name)}


def test_nothing_wanted_is_nothing_changed() -> None:
    assert change(partition()) is None
    assert change(partition(), isr=(1, 2, 3)) is None
    assert change(partition(leader=-1, isr=(2,)), alive=[1]) is None


def test_a_new_isr_leaves_the_leader_epoch_alone() -> None:
    assert change(partition(), isr=(1, 2)) == {"isr": (1, 2)}
    assert change(partition(isr=(1,)), isr=(1, 2)) == {"isr": (1, 2)}


def test_before_3_6_a_shrunk_isr_needs_a_new_leader_epoch() -> None:
    assert change(partition(), isr=(1, 2), metadata_version=11) == {"isr": (1, 2), "leader": 1}
    assert change(partition(isr=(1,)), isr=(1, 2), metadata_version=11) == {"isr": (1, 2)}
    assert change(partition(), isr=(1, 2), metadata_version=12) == {"isr": (1, 2)}


def test_the_first_living_replica_in_sync_takes_over() -> None:
    assert change(partition(), alive=[2, 3], isr=(2, 3)) == {"isr": (2, 3), "leader": 2}
    assert change(partition(replicas=(3, 1, 2)), alive=[2, 3], isr=(2, 3)) == {"isr": (2, 3), "leader": 3}
    assert change(partition(isr=(1, 3)), alive=[2, 3], isr=(3,)) == {"isr": (3,), "leader": 3}


def test_without_a_living_replica_in_sync_there_is_no_leader_and_the_last_one_stays_in_sync() -> None:
    assert change(partition(isr=(1,)), alive=[2, 3], isr=()) == {"leader": -1}


def test_with_elr_the_last_one_becomes_eligible_and_is_remembered() -> None:
    assert change(partition(isr=(1,)), alive=[2, 3], isr=(), elr=True) == {
        "isr": (),
        "eligible_leader_replicas": (1,),
        "last_known_elr": (1,),
        "leader": -1,
    }


def test_a_replica_that_leaves_the_isr_below_its_minimum_is_eligible() -> None:
    shrunk = change(partition(), isr=(1,), min_isr=2, elr=True)
    assert shrunk == {"isr": (1,), "eligible_leader_replicas": (2, 3)}
    assert change(partition(), isr=(1, 2), min_isr=2, elr=True) == {"isr": (1, 2)}


def test_an_isr_that_is_big_enough_again_ends_eligibility() -> None:
    old = partition(isr=(1,), elr=(2, 3))
    assert change(old, isr=(1, 2), min_isr=2, elr=True) == {"isr": (1, 2), "eligible_leader_replicas": ()}


def test_an_eligible_replica_leads_only_without_anybody_in_sync() -> None:
    old = partition(isr=(1,), elr=(2, 3))
    assert change(old, alive=[2, 3], min_isr=2, elr=True) == {"leader": -1, "last_known_elr": (1,)}
    gone = partition(isr=(), leader=-1, elr=(1, 2), last_known_elr=(1,))
    assert change(gone, alive=[2, 3], min_isr=2, elr=True) == {
        "leader": 2,
        "isr": (2,),
        "eligible_leader_replicas": (1,),
        "last_known_elr": (),
    }


def test_a_replica_after_an_unclean_stop_is_not_eligible() -> None:
    old = partition(isr=(1,), elr=(2, 3))
    assert change(old, isr=(1,), min_isr=2, elr=True, unclean_replica=2) == {"eligible_leader_replicas": (3,)}
    assert change(old, alive=[4], isr=(), min_isr=2, elr=True, unclean_replica=1) == {
        "isr": (),
        "leader": -1,
        "last_known_elr": (1,),
    }


def test_the_last_leader_returns_when_no_other_replica_is_left() -> None:
    old = partition(isr=(), leader=-1, last_known_elr=(2,))
    recovered = {"leader": 2, "isr": (2,), "last_known_elr": (), "leader_recovery_state": RECOVERING}
    assert change(old, min_isr=2, elr=True) == recovered
    assert change(old, alive=[1, 3], min_isr=2, elr=True) is None
    assert change(partition(isr=(), leader=-1, last_known_elr=(2, 3)), min_isr=2, elr=True) is None


@pytest.mark.parametrize("elr", [False, True])
def test_an_unclean_election_leaves_one_replica_in_sync_which_recovers(elr: bool) -> None:
    old = partition(isr=(1,))
    result = change(old, alive=[2, 3], isr=(), elr=elr, election=Election.UNCLEAN)
    if elr:
        # Replica 1 has everything, but is not alive.
        assert result == {"leader": 2, "isr": (2,), "leader_recovery_state": RECOVERING}
    else:
        assert result == {"leader": 2, "isr": (2,), "leader_recovery_state": RECOVERING}


def test_an_unclean_election_prefers_a_clean_leader() -> None:
    assert change(partition(isr=(1, 3)), alive=[2, 3], isr=(3,), election=Election.UNCLEAN) == {
        "leader": 3,
        "isr": (3,),
    }


def test_an_unclean_election_ends_eligibility() -> None:
    old = partition(isr=(), leader=-1, elr=(1,), last_known_elr=(1,))
    assert change(old, alive=[3], elr=True, min_isr=2, election=Election.UNCLEAN) == {
        "leader": 3,
        "isr": (3,),
        "eligible_leader_replicas": (),
        "last_known_elr": (),
        "leader_recovery_state": RECOVERING,
    }


def test_an_unclean_leader_ends_eligibility_even_of_those_like_itself() -> None:
    old = partition(isr=(1,), elr=(2, 3))
    assert change(old, alive=[2], min_isr=2, elr=True, election=Election.UNCLEAN) == {
        "leader": 2,
        "isr": (2,),
        "eligible_leader_replicas": (),
        "leader_recovery_state": RECOVERING,
    }


def test_the_preferred_leader() -> None:
    old = partition(leader=2)
    assert change(old, election=Election.PREFERRED) == {"leader": 1}
    assert change(old, election=Election.ONLINE) is None
    assert change(old, alive=[2, 3], election=Election.PREFERRED) is None
    assert change(partition(leader=2, isr=(2, 3)), election=Election.PREFERRED) is None
    assert change(partition(leader=2), alive=[3], isr=(3,), election=Election.PREFERRED) == {"isr": (3,), "leader": 3}
    assert change(partition(leader=-1, isr=(1,)), alive=[2], election=Election.PREFERRED) is None


def test_a_recovered_leader() -> None:
    old = partition(isr=(1,), leader_recovery_state=RECOVERING)
    assert change(old, isr=(1,), leader_recovery_state=RECOVERED) == {"leader_recovery_state": RECOVERED}
    assert change(old, isr=(1,), leader_recovery_state=RECOVERING) is None


def test_a_reassignment_adds_first() -> None:
    assert change(partition(), replicas=(4, 5, 1, 2, 3), adding=(4, 5), removing=(1, 2, 3)) == {
        "replicas": (4, 5, 1, 2, 3),
        "adding_replicas": (4, 5),
        "removing_replicas": (1, 2, 3),
        "directories": tuple(map(directory, (4, 5, 1, 2, 3))),
    }


def test_a_reassignment_is_complete_when_all_new_replicas_are_in_sync() -> None:
    old = partition(replicas=(4, 5, 1, 2), isr=(1, 2), adding=(4, 5), removing=(1, 2))
    assert change(old, isr=(1, 2, 4)) == {"isr": (1, 2, 4)}
    assert change(old, isr=(1, 2, 4, 5)) == {
        "replicas": (4, 5),
        "isr": (4, 5),
        "leader": 4,
        "adding_replicas": (),
        "removing_replicas": (),
        "directories": tuple(map(directory, (4, 5))),
    }


def test_dropped_replicas_are_fenced_by_a_new_leader_epoch_of_the_same_leader() -> None:
    old = partition(replicas=(1, 4, 2), isr=(1, 2), adding=(4,), removing=(2,))
    done = change(old, isr=(1, 2, 4))
    assert done is not None
    assert (done["leader"], done["isr"], done["replicas"]) == (1, (1, 4), (1, 4))


def test_dropping_replicas_of_a_partition_without_leader_remembers_no_leader() -> None:
    old = partition(replicas=(1, 2), isr=(1, 2), leader=-1)
    done = change(old, alive=[], isr=(1,), replicas=(1,), elr=True)
    assert done == {"replicas": (1,), "isr": (1,), "leader": -1, "directories": (directory(1),)}


def test_a_dropped_replica_is_not_eligible() -> None:
    old = partition(replicas=(1, 2), isr=(1, 2))
    done = change(old, isr=(1, 2), removing=(2,), min_isr=2, elr=True)
    assert done == {"replicas": (1,), "isr": (1,), "leader": 1, "directories": (directory(1),)}


def test_a_replica_in_another_dir() -> None:
    old = partition(replicas=(1, 2))
    there = uuid.UUID(int=9)
    assert change(old, directories={2: there}) == {"directories": (directory(1), there)}
    assert change(old, directories={2: directory(2)}) is None
    assert change(old, directories={2: there}, metadata_version=16) is None


@pytest.mark.parametrize(
    ("isr", "adding", "removing", "expected"),
    [
        ((1, 2, 3), (), (), None),
        ((1, 2, 3), (3,), (), ((1, 2, 3), (1, 2, 3))),
        ((1, 2), (3,), (), None),
        ((1, 3), (3,), (), ((1, 2, 3), (1, 3))),
        ((1, 3), (3,), (1,), ((2, 3), (3,))),
        ((1, 2), (3,), (1,), None),
        ((3,), (3,), (1, 2), ((3,), (3,))),
        ((1, 2, 3), (), (1,), ((2, 3), (2, 3))),
        ((1, 3), (), (1,), None),
        ((1,), (), (1,), None),
        ((1, 2, 3), (), (1, 2, 3), None),
    ],
)
def test_when_a_reassignment_is_complete(
    isr: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...], expected: object
) -> None:
    assert completed_reassignment((1, 2, 3), isr, adding=adding, removing=removing) == expected
