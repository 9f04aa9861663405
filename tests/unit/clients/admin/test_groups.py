"""Calls about groups: what is asked, how answers and errors come back."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crabka.clients.admin.group_types import GroupListing, GroupMember, GroupOffset
from crabka.clients.admin.groups import GroupAdmin
from crabka.clients.admin.requests import AdminRequests
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, ms
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import Answer, ReceivedRequest
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.coordinators.answers import coordinator

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
Test = Callable[[GroupAdmin, ClientSimulation], Awaitable[None]]


def with_groups(
    test: Test, *, node_ids: tuple[int, ...] = (1,), without: tuple[ApiKey, ...] = (), **answers: Answer
) -> None:
    """Run a test with the calls about groups; `answers` are answer functions by the name of the API."""

    async def main(simulation: ClientSimulation) -> None:
        for broker in simulation.brokers.brokers.values():
            broker.answers |= {ApiKey[name]: answer for name, answer in answers.items()}
            broker.answers.setdefault(ApiKey.FIND_COORDINATOR, lambda request: coordinator(request, node_ids[-1]))
            for api_key in without:
                del broker.versions[api_key]
        async with simulation.connect() as cluster:
            await test(GroupAdmin(AdminRequests(cluster, timeout_ms=2_000)), simulation)

    simulate(main, node_ids=node_ids)


def limit(simulation: ClientSimulation, api_key: ApiKey, version: int) -> None:
    simulation.brokers.brokers[1].versions[api_key] = (0, version)


def listed(request: ReceivedRequest, name: str, code: ErrorCode = ErrorCode.none) -> Any:
    group = request.types.new(
        "ListedGroup", group_id=name, protocol_type="consumer", group_state="Stable", group_type="Classic"
    )
    return request.types.message(throttle_time=0, error_code=code, groups=[] if code is not ErrorCode.none else [group])


def test_groups_of_all_brokers_are_listed() -> None:
    names = iter(["z", "y"])

    async def test(admin: GroupAdmin, simulation: ClientSimulation) -> None:
        found = await admin.list(states=["Stable"], types=["classic"])
        assert found == [GroupListing(name, "consumer", "Stable", "classic") for name in ("y", "z")]
        for request in simulation.brokers.asked(ApiKey.LIST_GROUPS):
            assert (request.body.states_filter, request.body.types_filter) == (("Stable",), ("classic",))

    with_groups(test, node_ids=(1, 2), LIST_GROUPS=lambda request: listed(request, next(names)))


@run_with(lambda test: with_groups(test, LIST_GROUPS=lambda request: listed(request, "g")))
async def test_old_broker_reports_neither_state_nor_type(admin: GroupAdmin, simulation: ClientSimulation, /) -> None:
    limit(simulation, ApiKey.LIST_GROUPS, 2)
    assert await admin.list() == [GroupListing("g", "consumer", "", "")]


def test_groups_that_load_are_waited_for() -> None:
    codes = iter([ErrorCode.coordinator_load_in_progress, ErrorCode.none])

    async def test(admin: GroupAdmin, _: ClientSimulation) -> None:
        assert [group.group_id for group in await admin.list()] == ["g"]

    with_groups(test, LIST_GROUPS=lambda request: listed(request, "g", next(codes)))


def classic(request: ReceivedRequest, *, state: str = "Stable", protocol: str = "consumer", **fields: Any) -> Any:
    assignment = struct.pack(">hi", 3, 1) + b"\x00\x01a" + struct.pack(">iiii", 2, 0, 1, -1)
    member = request.types.new(
        "DescribedGroupMember",
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        member_metadata=b"",
        member_assignment=assignment,
    )
    error = {"error_code": ErrorCode.none, "error_message": None} | fields
    group = request.types.new(
        "DescribedGroup",
        **error,
        group_id=request.body.groups[0],
        group_state=state,
        protocol_type=protocol,
        protocol_data="range",
        members=[member] if state == "Stable" else [],
    )
    return request.types.message(throttle_time=0, groups=[group])


def not_found(request: ReceivedRequest) -> Any:
    return consumer(request, error_code=ErrorCode.group_id_not_found, error_message="not one of these")


def consumer(request: ReceivedRequest, **fields: Any) -> Any:
    types = request.types

    def assignment(*indexes: int) -> Any:
        topics = [types.new("TopicPartitions", topic_id=None, topic_name="a", partitions=indexes)]
        return types.new("Assignment", topic_partitions=topics)

    member = types.new(
        "Member",
        member_id="m",
        instance_id=None,
        rack_id=None,
        member_epoch=7,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["a"],
        subscribed_topic_regex=None,
        assignment=assignment(1),
        target_assignment=assignment(1, 0),
        member_type=1,
    )
    error = {"error_code": ErrorCode.none, "error_message": None} | fields
    group = types.new(
        "DescribedGroup",
        **error,
        group_id=request.body.group_ids[0],
        group_state="Reconciling",
        group_epoch=8,
        assignment_epoch=7,
        assignor_name="uniform",
        members=[member] if not fields else [],
    )
    return types.message(throttle_time=0, groups=[group])


@run_with(with_groups, CONSUMER_GROUP_DESCRIBE=consumer)
async def test_consumer_group_is_described_with_epochs_and_targets(
    admin: GroupAdmin, simulation: ClientSimulation, /
) -> None:
    found = await admin.describe("g")
    assert (found.type, found.state, found.assignor) == ("consumer", "Reconciling", "uniform")
    assert (found.epoch, found.assignment_epoch, found.coordinator_id) == (8, 7, 1)
    assert found.members == (GroupMember("m", None, "c", "/h", (A1,), (A0, A1), 7),)
    assert simulation.brokers.asked(ApiKey.DESCRIBE_GROUPS) == []


@run_with(with_groups, CONSUMER_GROUP_DESCRIBE=not_found, DESCRIBE_GROUPS=classic)
async def test_classic_group_is_described_where_the_other_kind_is_known(admin: GroupAdmin, /) -> None:
    found = await admin.describe("g")
    assert (found.type, found.state, found.assignor, found.epoch) == ("classic", "Stable", "range", None)
    assert found.members == (GroupMember("m", "i", "c", "/h", (A0, A1)),)


@pytest.mark.parametrize("version", [0, 4, 6])
@run_with(with_groups, without=(ApiKey.CONSUMER_GROUP_DESCRIBE,), DESCRIBE_GROUPS=classic)
async def test_classic_group_is_described_where_there_is_no_other_kind(
    admin: GroupAdmin, simulation: ClientSimulation, /, version: int
) -> None:
    limit(simulation, ApiKey.DESCRIBE_GROUPS, version)
    (member,) = (await admin.describe("g")).members
    assert (member.client_id, member.assignment) == ("c", (A0, A1))


def test_members_of_other_protocols_have_no_readable_assignment() -> None:
    async def test(admin: GroupAdmin, _: ClientSimulation) -> None:
        (member,) = (await admin.describe("g")).members
        assert member.assignment is None

    def connect(request: ReceivedRequest) -> Any:
        return classic(request, protocol="connect")

    with_groups(test, without=(ApiKey.CONSUMER_GROUP_DESCRIBE,), DESCRIBE_GROUPS=connect)


def test_group_that_does_not_exist_is_an_error_of_old_and_new_brokers() -> None:
    missing = {"error_code": ErrorCode.group_id_not_found, "error_message": "Group g not found."}
    answers: dict[int, dict[str, Any]] = {5: {"state": "Dead"}, 6: {"state": "Dead", **missing}}

    async def test(admin: GroupAdmin, simulation: ClientSimulation) -> None:
        for version in answers:
            limit(simulation, ApiKey.DESCRIBE_GROUPS, version)
            with pytest.raises(OperationError, match="group g") as caught:
                await admin.describe("g")
            assert caught.value.error_code is ErrorCode.group_id_not_found
            simulation.brokers.brokers[1].cut_connections()

    with_groups(
        test,
        CONSUMER_GROUP_DESCRIBE=not_found,
        DESCRIBE_GROUPS=lambda request: classic(request, **answers[request.version]),
    )


def fetched(request: ReceivedRequest, code: ErrorCode = ErrorCode.none, entry: ErrorCode = ErrorCode.none) -> Any:
    types = request.types
    suffix = "s" if request.version >= 8 else ""

    def partition(index: int, offset: int) -> Any:
        return types.new(
            f"OffsetFetchResponsePartition{suffix}",
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=3,
            metadata="note",
            error_code=entry,
        )

    topics = [
        types.new(f"OffsetFetchResponseTopic{suffix}", name="b", partitions=[partition(0, 9)]),
        types.new(f"OffsetFetchResponseTopic{suffix}", name="a", partitions=[partition(1, -1), partition(0, 0)]),
    ]
    group = {"topics": topics, "error_code": code}
    groups = [types.new("OffsetFetchResponseGroup", group_id="g", **group)] if suffix else []
    return types.message(throttle_time=0, groups=groups, **group)


@pytest.mark.parametrize("version", [2, 7, 8, 10])
@run_with(with_groups, OFFSET_FETCH=fetched)
async def test_offsets_of_a_group_are_asked_by_name(
    admin: GroupAdmin, simulation: ClientSimulation, /, version: int
) -> None:
    limit(simulation, ApiKey.OFFSET_FETCH, version)
    epoch = -1 if version < 5 else 3
    expected = {A0: GroupOffset(0, epoch, "note"), B0: GroupOffset(9, epoch, "note")}
    assert await admin.list_offsets("g") == expected
    (request,) = simulation.brokers.asked(ApiKey.OFFSET_FETCH)
    assert request.version == min(version, 9)
    asked = request.body.groups[0] if version >= 8 else request.body
    assert (asked.group_id, asked.topics) == ("g", None)


@pytest.mark.parametrize("version", [7, 9])
def test_unstable_offsets_of_partitions_are_asked_for_again(version: int) -> None:
    answers = iter([ErrorCode.unstable_offset_commit, ErrorCode.none])

    async def test(admin: GroupAdmin, simulation: ClientSimulation) -> None:
        limit(simulation, ApiKey.OFFSET_FETCH, version)
        found = await admin.list_offsets("g", [A0, B0], require_stable=True)
        assert found == {A0: GroupOffset(0, 3, "note"), B0: GroupOffset(9, 3, "note")}
        requests = simulation.brokers.asked(ApiKey.OFFSET_FETCH)
        assert len(requests) == 2
        for request in requests:
            assert request.body.require_stable
            asked = request.body.groups[0] if version >= 8 else request.body
            assert [(topic.name, list(topic.partition_indexes)) for topic in asked.topics] == [("a", [0]), ("b", [0])]

    with_groups(test, OFFSET_FETCH=lambda request: fetched(request, entry=next(answers)))


@pytest.mark.parametrize(
    "codes", [(ErrorCode.group_id_not_found, ErrorCode.none), (ErrorCode.none, ErrorCode.unstable_offset_commit)]
)
@run_with(lambda test, codes: with_groups(test, OFFSET_FETCH=lambda request: fetched(request, *codes)))
async def test_errors_of_offset_fetch_are_raised(admin: GroupAdmin, /, codes: tuple[ErrorCode, ErrorCode]) -> None:
    with pytest.raises(OperationError, match="of group g") as caught:
        await admin.list_offsets("g")
    assert caught.value.error_code in codes


def committed(request: ReceivedRequest, code: ErrorCode = ErrorCode.none) -> Any:
    topics = [
        request.types.new(
            "OffsetCommitResponseTopic",
            name=topic.name,
            partitions=[
                request.types.new(
                    "OffsetCommitResponsePartition", partition_index=each.partition_index, error_code=code
                )
                for each in topic.partitions
            ],
        )
        for topic in request.body.topics
    ]
    return request.types.message(throttle_time=0, topics=topics)


@pytest.mark.parametrize("version", [2, 5, 10])
@run_with(with_groups, OFFSET_COMMIT=committed)
async def test_offsets_are_committed_without_a_member(
    admin: GroupAdmin, simulation: ClientSimulation, /, version: int
) -> None:
    limit(simulation, ApiKey.OFFSET_COMMIT, version)
    await admin.alter_offsets("g", {A0: 5, B0: 6, A1: 7})
    (request,) = simulation.brokers.asked(ApiKey.OFFSET_COMMIT)
    assert (request.body.generation_id_or_member_epoch, request.body.member_id) == (-1, "")
    assert ms(getattr(request.body, "retention_time", None)) == -1
    sent = {
        (topic.name, each.partition_index): each.committed_offset
        for topic in request.body.topics
        for each in topic.partitions
    }
    assert sent == {A0: 5, A1: 7, B0: 6}


@run_with(lambda test: with_groups(test, OFFSET_COMMIT=lambda request: committed(request, ErrorCode.unknown_member_id)))
async def test_commit_for_a_group_with_members_names_the_partition(admin: GroupAdmin, /) -> None:
    with pytest.raises(OperationError, match="committing for group g: a-0: unknown_member_id"):
        await admin.alter_offsets("g", {A0: 5})


def deleted_offsets(request: ReceivedRequest, top: ErrorCode, code: ErrorCode = ErrorCode.none) -> Any:
    topics = [
        request.types.new(
            "OffsetDeleteResponseTopic",
            name=topic.name,
            partitions=[
                request.types.new(
                    "OffsetDeleteResponsePartition", partition_index=each.partition_index, error_code=code
                )
                for each in topic.partitions
            ],
        )
        for topic in request.body.topics
    ]
    return request.types.message(error_code=top, throttle_time=0, topics=topics)


@pytest.mark.parametrize(
    ("top", "code", "text"),
    [
        (ErrorCode.group_id_not_found, ErrorCode.none, "group g: group_id_not_found"),
        (ErrorCode.none, ErrorCode.group_subscribed_to_topic, "offsets of group g: a-0: group_subscribed_to_topic"),
    ],
)
@run_with(lambda test, code, top: with_groups(test, OFFSET_DELETE=lambda request: deleted_offsets(request, top, code)))
async def test_offsets_that_cannot_be_deleted(admin: GroupAdmin, /, text: str) -> None:
    with pytest.raises(OperationError, match=text):
        await admin.delete_offsets("g", [A0])


@run_with(lambda test: with_groups(test, OFFSET_DELETE=lambda request: deleted_offsets(request, ErrorCode.none)))
async def test_offsets_are_deleted(admin: GroupAdmin, simulation: ClientSimulation, /) -> None:
    await admin.delete_offsets("g", iter([A0, B0, A1]))
    (request,) = simulation.brokers.asked(ApiKey.OFFSET_DELETE)
    sent = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in request.body.topics]
    assert sent == [("a", [0, 1]), ("b", [0])]


def deleted(request: ReceivedRequest, code: ErrorCode) -> Any:
    results = [
        request.types.new("DeletableGroupResult", group_id=name, error_code=code) for name in request.body.groups_names
    ]
    return request.types.message(throttle_time=0, results=results)


def test_group_is_deleted_by_a_coordinator_that_has_loaded() -> None:
    codes = iter([ErrorCode.coordinator_load_in_progress, ErrorCode.none])

    async def test(admin: GroupAdmin, simulation: ClientSimulation) -> None:
        await admin.delete("g")
        assert [request.body.groups_names for request in simulation.brokers.asked(ApiKey.DELETE_GROUPS)] == [("g",)] * 2

    with_groups(test, DELETE_GROUPS=lambda request: deleted(request, next(codes)))


@run_with(lambda test: with_groups(test, DELETE_GROUPS=lambda request: deleted(request, ErrorCode.non_empty_group)))
async def test_group_with_members_is_not_deleted(admin: GroupAdmin, /) -> None:
    with pytest.raises(OperationError, match="group g: non_empty_group"):
        await admin.delete("g")
