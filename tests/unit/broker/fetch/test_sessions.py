"""The cache of fetch sessions: ids, epochs, eviction, order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from crabka.broker.fetch.sessions import MAX_EPOCH, MIN_EVICTION_AGE_MS, FetchSessionCache, remember_sent
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import fetch_body


def request(*partitions: int, session_id: int = 0, epoch: int = 0, **options: Any) -> Any:
    targets = [("t", index, 5) for index in partitions]
    return fetch_body(targets, session_id=session_id, session_epoch=epoch, **options)


def cache(max_sessions: int = 2) -> FetchSessionCache:
    return FetchSessionCache(max_sessions=max_sessions, rng=random.Random(1))


def test_a_full_fetch_opens_a_session() -> None:
    sessions = cache()
    plan = sessions.resolve(request(0, 1), 12, 0)
    assert plan.session_id > 0
    assert not plan.incremental
    assert [(target.index, target.fetch_offset) for target in plan.targets] == [(0, 5), (1, 5)]


def test_a_fetch_without_partitions_opens_none() -> None:
    assert cache().resolve(request(), 12, 0).session_id == 0


def test_a_fetch_of_an_old_version_has_no_session() -> None:
    sessions = cache()
    assert sessions.resolve(fetch_body([("t", 0, 5)], version=6), 6, 0).session is None
    assert len(sessions) == 0


def test_a_new_full_fetch_replaces_the_old_session() -> None:
    sessions = cache()
    first = sessions.resolve(request(0), 12, 0)
    second = sessions.resolve(request(0, session_id=first.session_id), 12, 0)
    assert second.session_id not in (0, first.session_id)
    assert len(sessions) == 1


def test_only_a_session_that_was_idle_makes_room() -> None:
    sessions = cache(max_sessions=2)
    first = sessions.resolve(request(0), 12, 0)
    second = sessions.resolve(request(0), 12, 1)
    assert sessions.resolve(request(0), 12, MIN_EVICTION_AGE_MS - 1).session is None
    # The first one is used, so that the second is the oldest now.
    sessions.resolve(request(session_id=first.session_id, epoch=1), 12, MIN_EVICTION_AGE_MS)
    assert sessions.resolve(request(0), 12, MIN_EVICTION_AGE_MS + 1).session is not None
    with pytest.raises(OperationError) as caught:
        sessions.resolve(request(session_id=second.session_id, epoch=1), 12, MIN_EVICTION_AGE_MS + 1)
    assert caught.value.error_code is ErrorCode.fetch_session_id_not_found


def test_without_slots_there_are_no_sessions() -> None:
    assert cache(max_sessions=0).resolve(request(0), 12, 10 * MIN_EVICTION_AGE_MS).session is None


def test_the_epoch_wraps_to_1() -> None:
    sessions = cache()
    plan = sessions.resolve(request(0), 12, 0)
    assert plan.session is not None
    plan.session.epoch = MAX_EPOCH
    sessions.resolve(request(session_id=plan.session_id, epoch=MAX_EPOCH), 12, 0)
    assert plan.session.epoch == 1


def test_a_refused_epoch_leaves_the_session_as_it_was() -> None:
    sessions = cache()
    plan = sessions.resolve(request(0), 12, 0)
    with pytest.raises(OperationError):
        sessions.resolve(request(session_id=plan.session_id, epoch=2), 12, 0)
    assert sessions.resolve(request(session_id=plan.session_id, epoch=1), 12, 0).incremental


def test_partitions_that_gave_data_go_to_the_end() -> None:
    sessions = cache()
    plan = sessions.resolve(request(0, 1, 2), 12, 0)
    assert plan.session is not None
    remember_sent(plan.session, [plan.targets[0]])
    following = sessions.resolve(request(session_id=plan.session_id, epoch=1), 12, 0)
    assert [target.index for target in following.targets] == [1, 2, 0]


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions = cache()
    plan = sessions.resolve(request(0, 1), 12, 0)
    changed = fetch_body([("t", 1, 9), ("u", 0, 3)], session_id=plan.session_id, session_epoch=1, forgotten=[("t", 0)])
    following = sessions.resolve(changed, 12, 0)
    assert [(each.topic, each.index, each.fetch_offset) for each in following.targets] == [("t", 1, 9), ("u", 0, 3)]


def test_a_follower_takes_the_place_of_a_consumer() -> None:
    sessions = cache(max_sessions=2)
    consumer = sessions.resolve(request(0), 12, 0)
    follower = sessions.resolve(request(0, replica_id=2), 12, 1)
    second = sessions.resolve(request(0, replica_id=3), 12, 2)
    assert second.session is not None
    with pytest.raises(OperationError):
        sessions.resolve(request(session_id=consumer.session_id, epoch=1), 12, 3)
    # No session makes room for a consumer, and no follower for another one.
    assert sessions.resolve(request(0), 12, 4).session is None
    assert sessions.resolve(request(0, replica_id=4), 12, 4).session is None
    # A follower that is gone makes room for everybody.
    sessions.resolve(request(session_id=second.session_id, epoch=1), 12, MIN_EVICTION_AGE_MS)
    assert sessions.resolve(request(0), 12, MIN_EVICTION_AGE_MS + 1).session is not None
    with pytest.raises(OperationError):
        sessions.resolve(request(session_id=follower.session_id, epoch=1), 12, MIN_EVICTION_AGE_MS + 1)


def test_a_session_remembers_where_the_log_of_a_follower_begins() -> None:
    sessions = cache()
    plan = sessions.resolve(request(0, replica_id=2), 12, 0)
    assert [target.log_start_offset for target in plan.targets] == [-1]
