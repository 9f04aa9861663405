"""Heartbeats of brokers and what the controller makes of them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from crabka.controller.decisions.broker_changes import fence_broker
from crabka.controller.decisions.control_view import DEFAULT_RULES, ControlView
from crabka.controller.decisions.heartbeats import (
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    BrokerState,
    broker_state,
    decide_heartbeat,
)
from crabka.controller.decisions.sessions import BrokerIncarnation, BrokerSessions
from crabka.errors import OperationError
from crabka.metadata.image import MetadataImage
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import applied, cluster, partition_of, register_broker, registration, with_partitions

UP_TO_DATE = 1000


class Controller:
    """Carries heartbeats out, as the active controller does."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.sessions = BrokerSessions(9000)

    def report(self, broker_id: int, offset: int = UP_TO_DATE, **wishes: Any) -> BrokerHeartbeatReply:
        epoch = self.image.cluster.brokers[broker_id].epoch
        heartbeat = BrokerHeartbeat(broker_id=broker_id, broker_epoch=epoch, metadata_offset=offset, **wishes)
        self.sessions.touch(BrokerIncarnation(broker_id, epoch), 0)
        outcome = decide_heartbeat(self.image, DEFAULT_RULES, self.sessions, heartbeat)
        self.image = applied(self.image, outcome.records)
        self.sessions.note(heartbeat, outcome.result, end_offset=self.image.offset)
        return outcome.result

    def state(self, broker_id: int) -> BrokerState:
        return broker_state(ControlView(self.image), broker_id)

    def leader(self, index: int = 0) -> int:
        return partition_of(self.image, "t", index).leader


def controller(*fenced: int) -> Controller:
    return Controller(with_partitions(cluster(1, 2, fenced=fenced), "t", {"replicas": (1, 2)}, {"replicas": (2, 1)}))


def test_a_broker_is_unfenced_when_it_has_read_its_registration() -> None:
    node = Controller(cluster(5, fenced=[5]))
    behind = node.report(5, offset=4)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    assert node.state(5) is BrokerState.FENCED
    reply = node.report(5, offset=5)
    assert reply == BrokerHeartbeatReply(
        is_caught_up=True, is_fenced=False, in_controlled_shutdown=False, should_shut_down=False
    )
    assert node.state(5) is BrokerState.UNFENCED
    offset = node.image.offset
    node.report(5)
    assert node.image.offset == offset


def test_a_broker_may_wish_to_stay_fenced_or_to_be_fenced() -> None:
    node = controller(1)
    assert node.report(1, want_fence=True).is_fenced
    node.report(1)
    assert node.report(1, want_fence=True).is_fenced
    assert node.state(1) is BrokerState.FENCED
    assert node.leader(0) == 2


def test_leaders_move_before_a_broker_stops_and_everybody_must_know_of_it() -> None:
    node = controller()
    node.report(2, offset=50)
    reply = node.report(1, want_shut_down=True)
    assert (reply.in_controlled_shutdown, reply.should_shut_down, reply.is_fenced) == (True, False, False)
    assert (node.state(1), node.leader(0)) == (BrokerState.CONTROLLED_SHUTDOWN, 2)
    moved_at = node.image.offset
    node.report(2, offset=moved_at - 1)
    assert not node.report(1, want_shut_down=True).should_shut_down
    node.report(2, offset=moved_at)
    reply = node.report(1, want_shut_down=True)
    assert (reply.should_shut_down, reply.is_fenced) == (True, True)
    assert node.state(1) is BrokerState.FENCED
    assert not node.sessions.is_live(BrokerIncarnation(1, 1), 0)


def test_a_broker_that_leads_nothing_stops_at_once() -> None:
    node = Controller(with_partitions(cluster(1, 2), "t", {"replicas": (2, 1)}))
    assert node.report(1, want_shut_down=True).should_shut_down
    assert node.state(1) is BrokerState.FENCED
    assert partition_of(node.image).isr == (2,)


def test_the_last_broker_stops_without_a_successor() -> None:
    node = Controller(with_partitions(cluster(1), "t", {"replicas": (1,)}))
    assert node.report(1, want_shut_down=True).in_controlled_shutdown
    assert node.leader() == -1
    assert node.report(1, want_shut_down=True).should_shut_down


def test_a_fenced_broker_may_stop_at_once_and_is_not_fenced_twice() -> None:
    node = controller(1)
    offset = node.image.offset
    assert node.report(1, want_shut_down=True).should_shut_down
    assert node.image.offset == offset


def test_fencing_and_stopping_together() -> None:
    node = controller()
    reply = node.report(1, want_fence=True, want_shut_down=True)
    assert (reply.should_shut_down, reply.in_controlled_shutdown) == (True, False)
    assert node.leader(0) == 2


def test_a_new_controller_goes_on_with_a_shutdown() -> None:
    node = controller()
    node.report(1, want_shut_down=True)
    node.sessions = BrokerSessions(9000)
    node.sessions.activate(node.image, 0)
    assert not node.report(1, want_shut_down=True).should_shut_down
    node.report(2, offset=node.image.offset)
    assert node.report(1, want_shut_down=True).should_shut_down


def test_a_leader_gained_during_shutdown_is_moved_again() -> None:
    from crabka.metadata.records import PartitionChangeRecord

    node = controller()
    node.report(1, want_shut_down=True)
    topic_id = node.image.topics.by_name["t"].topic_id
    node.image = applied(node.image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1, isr=(1, 2))])
    reply = node.report(1, want_shut_down=True)
    assert (reply.in_controlled_shutdown, node.leader(0)) == (True, 2)


def test_a_broker_fenced_while_it_stops_does_not_serve_again() -> None:
    node = controller()
    node.report(1, want_shut_down=True)
    node.image = applied(node.image, fence_broker(node.image, DEFAULT_RULES, 1, broker_epoch=1).records)
    assert node.report(1).is_fenced
    assert node.report(1, want_shut_down=True).should_shut_down


def test_a_dir_lost_before_unfencing_gets_no_leader() -> None:
    lost, kept = uuid.UUID(int=501), uuid.UUID(int=502)
    image = cluster()
    image = applied(image, register_broker(image, registration(1, (lost, kept)), broker_epoch=9).records)
    replica: dict[str, Any] = {"replicas": (1,), "leader": -1}
    image = with_partitions(image, "t", {**replica, "directories": (lost,)}, {**replica, "directories": (kept,)})
    node = Controller(image)
    assert not node.report(1, offline_log_dirs=[lost]).is_fenced
    assert (node.leader(0), node.leader(1)) == (-1, 1)
    assert node.image.cluster.brokers[1].directories == (kept,)


def test_cordoned_dirs_are_taken_over_where_the_metadata_has_room_for_them() -> None:
    node = controller()
    directory = uuid.UUID(int=1001)
    node.report(1, cordoned_log_dirs=[directory])
    assert node.image.cluster.brokers[1].cordoned_directories == (directory,)
    older = Controller(cluster(1, features={"metadata.version": 29}))
    older.report(1, cordoned_log_dirs=[directory])
    assert older.image.cluster.brokers[1].cordoned_directories == ()


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 2), (9, 1)])
def test_a_stale_incarnation_is_notified(broker_id: int, epoch: int) -> None:
    heartbeat = BrokerHeartbeat(broker_id=broker_id, broker_epoch=epoch, metadata_offset=0)
    with pytest.raises(OperationError) as caught:
        decide_heartbeat(cluster(1), DEFAULT_RULES, BrokerSessions(9000), heartbeat)
    assert caught.value.error_code is ErrorCode.stale_broker_epoch
