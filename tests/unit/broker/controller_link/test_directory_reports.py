"""What a broker reports of its log dirs, and what it does not."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

from crabka.broker.controller_link.directory_reports import DirectoryReports
from crabka.broker.controller_link.identity import BrokerIdentity
from crabka.errors import OperationError
from crabka.metadata.image import MetadataImage
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.protocol.error_codes import ErrorCode
from crabka.testing import VirtualTimeLoop
from tests.support.async_tests import real_time, run_with
from tests.support.nodes.controller_stand_in import ControllerInProcess
from tests.support.quorum.images import cluster, with_topic

KNOWN, OTHER = uuid.UUID(int=1001), uuid.UUID(int=2001)
DIRECTORIES = {"/known": KNOWN, "/other": OTHER}


def log_in(log_dir: str) -> Any:
    return SimpleNamespace(log_dir=log_dir, durability=SimpleNamespace(loss=None))


def image() -> MetadataImage:
    return with_topic(cluster(1), "t", 3)


def hosted(metadata: MetadataImage, index: int, log_dir: str) -> Any:
    topic_id = metadata.topics.by_name["t"].topic_id
    return SimpleNamespace(topic="t", topic_id=topic_id, index=index, log=log_in(log_dir))


def report(metadata: MetadataImage, partitions: list[Any], answer: Any = None) -> ControllerInProcess:
    controller = ControllerInProcess()

    def accept(types: MessageTypes, _: Any) -> Any:
        return types.message(throttle_time=0, error_code=ErrorCode.none, directories=[])

    controller.answers[ApiKey.ASSIGN_REPLICAS_TO_DIRS] = answer or accept
    logs: Any = SimpleNamespace(directory_id=DIRECTORIES.get)
    asyncio.run(DirectoryReports(controller, BrokerIdentity(1, 7), logs).report(metadata, partitions))
    return controller


def test_only_what_the_metadata_does_not_know_is_reported() -> None:
    metadata = image()
    places = ["/known", "/other", "/other"]
    controller = report(metadata, [hosted(metadata, index, place) for index, place in enumerate(places)])
    ((_, body),) = controller.asked
    assert (body.broker_id, body.broker_epoch) == (1, 7)
    ((directory, topics),) = [(each.id_, each.topics) for each in body.directories]
    assert directory == OTHER
    assert [each.partition_index for each in topics[0].partitions] == [1, 2]


def test_without_news_nothing_is_sent() -> None:
    metadata = image()
    assert report(metadata, [hosted(metadata, 0, "/known")]).asked == []


def test_replicas_that_are_no_longer_here_are_not_reported() -> None:
    metadata = image()
    gone = hosted(metadata, 9, "/other")
    unknown = SimpleNamespace(topic="u", topic_id=uuid.UUID(int=9), index=0, log=log_in("/other"))
    assert report(metadata, [gone, unknown, hosted(metadata, 0, "/unformatted")]).asked == []


def test_a_controller_that_refuses_or_is_away_does_no_harm() -> None:
    metadata = image()

    def refuse(types: MessageTypes, _: Any) -> Any:
        return types.message(throttle_time=0, error_code=ErrorCode.stale_broker_epoch, directories=[])

    def vanish(_: MessageTypes, __: Any) -> Any:
        raise OperationError(ErrorCode.request_timed_out, "nobody there")

    for answer in (refuse, vanish):
        assert len(report(metadata, [hosted(metadata, 0, "/other")], answer).asked) == 1


def test_unanswered_reports_are_sent_again() -> None:
    metadata = image()
    controller = ControllerInProcess()
    silent = 3

    def answer(types: MessageTypes, _: Any) -> Any:
        nonlocal silent
        silent -= 1
        if silent >= 0:
            raise OperationError(ErrorCode.request_timed_out, "nobody there")
        return types.message(throttle_time=0, error_code=ErrorCode.none, directories=[])

    async def scenario() -> None:
        logs: Any = SimpleNamespace(directory_id=DIRECTORIES.get)
        reports = DirectoryReports(controller, BrokerIdentity(1, 7), logs)
        assert not await reports.report(metadata, [hosted(metadata, 0, "/other")])
        # What comes later goes along.
        assert not await reports.report(metadata, [hosted(metadata, 1, "/other")])
        await reports.keep_reporting()
        assert await reports.report(metadata, [])

    controller.answers[ApiKey.ASSIGN_REPLICAS_TO_DIRS] = answer
    VirtualTimeLoop().run(scenario())
    reported = [
        [each.partition_index for each in body.directories[0].topics[0].partitions] for _, body in controller.asked
    ]
    assert reported == [[0], [0, 1], [0, 1], [0, 1]]


def test_a_replica_that_moves_while_the_controller_is_asked_is_reported_again() -> None:
    metadata = image()
    controller = ControllerInProcess()
    moving = hosted(metadata, 0, "/other")

    def answer(types: MessageTypes, _: Any) -> Any:
        moving.log.log_dir = "/third"
        return types.message(throttle_time=0, error_code=ErrorCode.none, directories=[])

    async def scenario() -> None:
        logs: Any = SimpleNamespace(directory_id={**DIRECTORIES, "/third": uuid.UUID(int=3001)}.get)
        reports = DirectoryReports(controller, BrokerIdentity(1, 7), logs)
        assert not await reports.report(metadata, [moving])
        await reports.keep_reporting()

    controller.answers[ApiKey.ASSIGN_REPLICAS_TO_DIRS] = answer
    VirtualTimeLoop().run(scenario())
    assert [body.directories[0].id_ for _, body in controller.asked] == [OTHER, uuid.UUID(int=3001)]


def test_a_controller_that_does_not_know_the_registration_yet_is_reported_again() -> None:
    metadata = image()
    controller = ControllerInProcess()
    codes = [ErrorCode.stale_broker_epoch, ErrorCode.none]

    async def scenario() -> None:
        logs: Any = SimpleNamespace(directory_id=DIRECTORIES.get)
        reports = DirectoryReports(controller, BrokerIdentity(1, 7), logs)
        assert not await reports.report(metadata, [hosted(metadata, 0, "/other")])
        await reports.keep_reporting()

    controller.answers[ApiKey.ASSIGN_REPLICAS_TO_DIRS] = lambda types, _: types.message(
        throttle_time=0, error_code=codes.pop(0), directories=[]
    )
    VirtualTimeLoop().run(scenario())
    assert not codes


@run_with(real_time)
async def test_a_replica_that_is_held_is_not_reported_of_before_it_is_released() -> None:
    metadata = image()
    controller = ControllerInProcess()
    controller.answers[ApiKey.ASSIGN_REPLICAS_TO_DIRS] = lambda types, _: types.message(
        throttle_time=0, error_code=ErrorCode.none, directories=[]
    )
    logs: Any = SimpleNamespace(directory_id=DIRECTORIES.get)
    partition = hosted(metadata, 0, "/other")

    reports = DirectoryReports(controller, BrokerIdentity(1, 7), logs)
    reports.hold((partition.topic_id, 0))
    await reports.report(metadata, [partition])
    assert controller.asked == []
    reports.release((partition.topic_id, 0))
    await reports.report(metadata, [partition])
    assert len(controller.asked) == 1
