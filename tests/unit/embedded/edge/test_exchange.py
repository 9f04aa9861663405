"""What faults do to requests of a node, in virtual time."""

from __future__ import annotations

import pytest

from crabka.embedded.edge.edge import Edge
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, batch, build, fetch_body, produce_body, row

NOT_LEADER = ErrorCode.not_leader_or_follower


def test_a_request_that_fails_is_not_executed(node: SimNode, edge: Edge) -> None:
    node.create_topic("t")
    fault = edge.faults.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    codes = [node.produce("t", batch(value)).error_code for value in (b"a", b"b", b"c")]
    assert codes == [NOT_LEADER, NOT_LEADER, 0]
    assert node.values("t") == [b"c"]
    assert fault.hits == 2
    assert [each.fault for each in edge.requests("Produce")] == ["NOT_LEADER_OR_FOLLOWER"] * 2 + [None]


@pytest.mark.parametrize("version", [9, 13])
def test_only_the_rows_of_a_fault_fail(node: SimNode, edge: Edge, version: int) -> None:
    ids = {name: node.create_topic(name).topic_id for name in ("a", "b")}
    edge.faults.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic="a")
    bodies = [produce_body(name, batch(b"x"), version=version, topic_id=ids[name]) for name in ids]
    both = type(bodies[0])(
        transactional_id=None, acks=-1, timeout=bodies[0].timeout, topic_data=tuple(b.topic_data[0] for b in bodies)
    )
    answer = node.ask(ApiKey.PRODUCE, version, both)
    names = {topic_id: name for name, topic_id in ids.items()}
    assert {
        names[topic.topic_id] if version == 13 else topic.name: int(topic.partition_responses[0].error_code)
        for topic in answer.responses
    } == {"a": NOT_LEADER, "b": 0}
    assert (node.values("a"), node.values("b")) == ([], [b"x"])


def test_a_fetch_session_is_ended_so_that_its_partitions_can_fail(node: SimNode, edge: Edge) -> None:
    node.create_topic("t")
    opened = node.ask(ApiKey.FETCH, 12, fetch_body([("t", 0, 0)], session_epoch=0))
    assert opened.session_id > 0
    fault = edge.faults.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="t")
    session = {"session_id": opened.session_id, "session_epoch": 1}
    ended = node.ask(ApiKey.FETCH, 12, fetch_body([], **session))
    assert (ended.error_code, fault.hits) == (ErrorCode.fetch_session_id_not_found, 0)
    failed = node.ask(ApiKey.FETCH, 12, fetch_body([("t", 0, 0)], session_epoch=0))
    assert failed.session_id == 0
    assert (failed.responses[0].partitions[0].error_code, fault.hits) == (NOT_LEADER, 1)


def test_the_other_partitions_of_a_fetch_are_read_without_a_session(node: SimNode, edge: Edge) -> None:
    for name in ("a", "b"):
        node.create_topic(name)
        node.produce(name, batch(b"x"))
    edge.faults.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="a")
    answer = node.ask(ApiKey.FETCH, 12, fetch_body([("a", 0, 0), ("b", 0, 0)], session_epoch=0))
    rows = {topic.topic: topic.partitions[0] for topic in answer.responses}
    assert (rows["a"].error_code, rows["b"].error_code, answer.session_id) == (NOT_LEADER, 0, 0)
    assert rows["b"].records


def test_an_error_of_a_session_is_one_of_the_whole_fetch(node: SimNode, edge: Edge) -> None:
    node.create_topic("t")
    edge.faults.fail_next("Fetch", "INVALID_FETCH_SESSION_EPOCH")
    answer = node.ask(ApiKey.FETCH, 12, fetch_body([("t", 0, 0)]))
    assert (answer.error_code, answer.responses) == (ErrorCode.invalid_fetch_session_epoch, ())


def test_without_an_answer_the_connection_ends(node: SimNode, edge: Edge) -> None:
    node.create_topic("t")
    fault = edge.faults.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER")
    client = node.connect()
    client.post(ApiKey.PRODUCE, 9, produce_body("t", batch(b"a"), acks=0))
    node.advance(10)
    assert (client.closed, fault.hits) == (True, 1)
    assert node.values("t") == []


@pytest.mark.parametrize(
    ("drop", "stored", "answered"),
    [
        ({"before": "Produce"}, [], False),
        ({"after": "Produce"}, [b"a"], False),
        ({"after": "Produce", "before_answer": False}, [b"a"], True),
    ],
)
def test_a_connection_is_dropped_before_or_after_the_request(
    node: SimNode,
    edge: Edge,
    drop: dict[str, str],
    stored: list[bytes],
    answered: bool,
) -> None:
    node.create_topic("t")
    fault = edge.faults.drop_connection(**drop)  # type: ignore[arg-type] # names and a bool
    client = node.connect()
    client.post(ApiKey.PRODUCE, 9, produce_body("t", batch(b"a")))
    if answered:
        node.run(client.response(ApiKey.PRODUCE, 9))
    with pytest.raises(ConnectionResetError):
        node.run(client.frame())
    assert fault.hits == 1
    assert node.values("t") == stored


def test_a_request_behind_a_dropped_one_is_not_executed(node: SimNode, edge: Edge) -> None:
    node.create_topic("t")
    edge.faults.drop_connection(before="Produce")
    client = node.connect()
    for value in (b"a", b"b"):
        client.post(ApiKey.PRODUCE, 9, produce_body("t", batch(value)))
    node.advance(10)
    assert client.closed
    assert node.values("t") == []


def test_an_answer_that_comes_later_is_lost_with_its_connection(node: SimNode, edge: Edge) -> None:
    node.create_topic("t")
    fault = edge.faults.drop_connection(after="Fetch")
    client = node.connect()
    client.post(ApiKey.FETCH, 12, fetch_body([("t", 0, 0)], max_wait=500))
    node.advance(400)
    assert (client.closed, fault.hits) == (False, 0)
    node.advance(200)
    assert (client.closed, fault.hits) == (True, 1)


def test_an_answer_is_delayed_in_virtual_time_and_the_request_is_not(node: SimNode, edge: Edge) -> None:
    node.create_topic("t")
    with edge.faults.delay("Produce", 60.0) as fault:
        client = node.connect()
        client.post(ApiKey.PRODUCE, 9, produce_body("t", batch(b"a")))
        node.advance(10)
        assert node.values("t") == [b"a"]
        start = node.loop.time()
        node.run(client.response(ApiKey.PRODUCE, 9))
        assert node.loop.time() - start > 59
    assert fault.hits == 1


def test_answers_are_throttled_while_the_fault_is_there(node: SimNode, edge: Edge) -> None:
    node.create_topic("t")
    node.produce("t", batch(b"a"))
    with edge.faults.throttle("Fetch", 250):
        answer = node.ask(ApiKey.FETCH, 12, fetch_body([("t", 0, 0)]))
        assert answer.responses[0].partitions[0].records
        assert answer.throttle_time.total_seconds() == 0.25
    assert node.ask(ApiKey.FETCH, 12, fetch_body([("t", 0, 0)])).throttle_time.total_seconds() == 0


@pytest.mark.parametrize("error", ["FENCED_INSTANCE_ID", "REBALANCE_IN_PROGRESS"])
def test_a_request_of_a_member_fails(node: SimNode, edge: Edge, error: str) -> None:
    edge.faults.fail_next("Heartbeat", error, client_id="sim")
    body = build(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    assert node.ask(ApiKey.HEARTBEAT, 4, body).error_code.name.upper() == error
    assert node.ask(ApiKey.HEARTBEAT, 4, body).error_code is ErrorCode.not_coordinator


def test_a_forwarded_request_fails_at_the_broker(node: SimNode, edge: Edge) -> None:
    edge.faults.fail_next("CreateTopics", "NOT_CONTROLLER", topic="t")
    topics = [
        row("CreatableTopic", name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
        for name in ("t", "u")
    ]
    fields = {"topics": topics, "timeout": 1000, "validate_only": False}
    answer = node.ask(ApiKey.CREATE_TOPICS, 7, **fields)
    assert {topic.name: int(topic.error_code) for topic in answer.topics} == {"t": ErrorCode.not_controller, "u": 0}
