"""What becomes of replicas whose logs lost durable records."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from crabka.broker.controller_link.identity import BrokerIdentity
from crabka.broker.controller_link.replica_losses import ReplicaLosses
from crabka.ids import DIRECTORY_LOST, TopicPartition
from crabka.log.recovery.loss import LogLoss
from crabka.metadata.image import MetadataImage
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import VirtualTimeLoop
from tests.support.quorum.images import cluster, partition_of, topic_id_of, with_partition, with_partitions

Placements: TypeAlias = dict[uuid.UUID, dict[uuid.UUID, list[int]]]

OWN = uuid.UUID(int=1001)
LOSS = LogLoss(4, 9, "/d/t-0/0.log", "the checksum does not match")


class StoredDurability:
    """Whether the log has lost records."""

    def __init__(self, loss: LogLoss | None) -> None:
        self.loss = loss

    def settle_loss(self) -> None:
        self.loss = None


class StoredLog:
    """As much of a log as matters."""

    def __init__(self, loss: LogLoss | None = LOSS) -> None:
        self.topic, self.partition = "t", 0
        self.topic_partition = TopicPartition("t", 0)
        self.topic_id = topic_id_of("t")
        self.log_dir = "/d"
        self.durability = StoredDurability(loss)


class Scene:
    """A broker with one log, and a controller that takes over what it is asked for."""

    def __init__(self, image: MetadataImage, log: StoredLog) -> None:
        self.image = image
        self.log = log
        self.asked: list[Placements] = []
        self.answers: list[ErrorCode | None] = []
        self.loop = VirtualTimeLoop()
        self.tasks: list[Any] = []
        logs: Any = _Logs(log)
        self.losses = ReplicaLosses(
            logs, BrokerIdentity(1, 7), image=lambda: self.image, ask=self._ask, spawn=self._spawn
        )

    async def _ask(self, placements: Placements) -> ErrorCode | None:
        self.asked.append(placements)
        code = self.answers.pop(0) if self.answers else ErrorCode.none
        if code is ErrorCode.none:
            ((directory, _),) = placements.items()
            partition = partition_of(self.image, "t", 0)
            own = partition.replicas.index(1)
            directories = (*partition.directories[:own], directory, *partition.directories[own + 1 :])
            self.image = with_partition(self.image, "t", 0, replace(partition, directories=directories))
        return code

    def _spawn(self, coroutine: Any) -> None:
        self.tasks.append(self.loop.create_task(coroutine))

    def report(self) -> None:
        self.loop.run_until_complete(self.losses.report())

    def close(self) -> None:
        self.loop.close()

    def learn(self, **changes: Any) -> None:
        partition = replace(partition_of(self.image, "t", 0), **changes)
        self.image = with_partition(self.image, "t", 0, partition)
        self.losses.on_metadata(SimpleNamespace(), self.image)
        while self.tasks:
            self.loop.run_until_complete(self.tasks.pop())

    def directories(self) -> list[uuid.UUID]:
        return [directory for placements in self.asked for directory in placements]


class _Logs:
    def __init__(self, log: StoredLog) -> None:
        self.log = log

    def __iter__(self) -> Any:
        return iter([self.log])

    def get(self, _topic_partition: TopicPartition) -> StoredLog:
        return self.log

    def directory_id(self, _path: str) -> uuid.UUID:
        return OWN


def image_of(*replicas: int, **fields: Any) -> MetadataImage:
    directories = tuple(OWN if each == 1 else uuid.UUID(int=each + 5000) for each in replicas)
    placed = {"replicas": replicas, "isr": (1,), "leader": -1, "directories": directories, **fields}
    return with_partitions(cluster(1, 2, 3), "t", placed)


MakeScene: TypeAlias = Callable[[MetadataImage, StoredLog], Scene]


@pytest.fixture
def make_scene() -> Iterator[MakeScene]:
    scenes: list[Scene] = []

    def make(image: MetadataImage, log: StoredLog) -> Scene:
        scenes.append(Scene(image, log))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.close()


def test_a_replica_that_lost_records_is_reported_as_lost_until_it_follows_and_settled_once_it_is_in_sync(
    make_scene: MakeScene, caplog: pytest.LogCaptureFixture
) -> None:
    scene = make_scene(image_of(1, 2, 3), StoredLog())
    scene.report()
    assert scene.directories() == [DIRECTORY_LOST]
    assert scene.asked[0][DIRECTORY_LOST] == {topic_id_of("t"): [0]}
    assert str(LOSS) in caplog.text
    assert scene.losses.standing_back_count == 1
    scene.learn(leader=2, isr=(2,), elr=(1,))
    assert scene.directories() == [DIRECTORY_LOST]
    scene.learn(isr=(2, 3), elr=())
    assert scene.directories() == [DIRECTORY_LOST, OWN]
    assert (scene.log.durability.loss, scene.losses.standing_back_count) == (LOSS, 1)
    scene.learn(leader=-1, isr=(2,))
    assert scene.directories() == [DIRECTORY_LOST, OWN, DIRECTORY_LOST]
    scene.learn(leader=2, isr=(2, 1))
    assert scene.directories() == [DIRECTORY_LOST, OWN, DIRECTORY_LOST, OWN]
    assert (scene.log.durability.loss, scene.losses.standing_back_count) == (None, 0)
    scene.learn(isr=(2, 1, 3))
    assert len(scene.asked) == 4


def test_the_only_replica_leads_with_a_loud_message(make_scene: MakeScene, caplog: pytest.LogCaptureFixture) -> None:
    scene = make_scene(image_of(1), StoredLog())
    scene.report()
    assert scene.asked == []
    assert scene.log.durability.loss is None
    (message,) = [record for record in caplog.records if "it may lead" in record.message]
    assert message.levelname == "ERROR"
    assert str(LOSS) in message.message


def test_the_last_of_all_leads_when_the_others_lost_records_as_well(make_scene: MakeScene) -> None:
    scene = make_scene(image_of(1, 2), StoredLog())
    scene.report()
    assert scene.directories() == [DIRECTORY_LOST]
    scene.learn(directories=(DIRECTORY_LOST, DIRECTORY_LOST))
    assert scene.directories() == [DIRECTORY_LOST, OWN]
    assert scene.log.durability.loss is None


def test_a_report_is_repeated_until_it_is_answered(make_scene: MakeScene) -> None:
    scene = make_scene(image_of(1, 2), StoredLog())
    # A controller that fails has not noted the loss: a node that goes on might lead without its records.
    scene.answers = [None, None, ErrorCode.stale_broker_epoch, ErrorCode.unknown_server_error]
    scene.report()
    assert scene.directories() == [DIRECTORY_LOST] * 5
    assert partition_of(scene.image, "t", 0).directory_of(1) == DIRECTORY_LOST


def test_a_controller_that_knows_no_directories_does_not_hold_up_the_start(
    make_scene: MakeScene, caplog: pytest.LogCaptureFixture
) -> None:
    scene = make_scene(image_of(1, 2), StoredLog())
    scene.answers = [ErrorCode.unsupported_version]
    scene.report()
    assert "unsupported_version" in caplog.text
    assert scene.log.durability.loss is not None


def test_a_replica_that_has_its_records_and_is_known_as_lost_does_not_hold_up_the_start(make_scene: MakeScene) -> None:
    scene = make_scene(image_of(1, 2, leader=2, isr=(2,), directories=(DIRECTORY_LOST, OWN)), StoredLog(loss=None))
    scene.report()
    assert scene.directories() == []


def test_a_replica_that_stood_back_before_a_restart_does_so_after_it(make_scene: MakeScene) -> None:
    # The recovery point is lowered by then, and what is left is the high watermark.
    log = StoredLog(LOSS._replace(is_durable=False))
    scene = make_scene(image_of(1, 2, directories=(DIRECTORY_LOST, OWN)), log)
    scene.report()
    assert scene.losses.standing_back_count == 1
    scene = make_scene(image_of(1, 2), StoredLog(LOSS._replace(is_durable=False)))
    scene.report()
    assert scene.losses.standing_back_count == 0


def test_a_log_without_a_loss_is_left_alone(make_scene: MakeScene) -> None:
    scene = make_scene(image_of(1, 2), StoredLog(loss=None))
    scene.report()
    scene.learn(leader=1)
    assert scene.asked == []
