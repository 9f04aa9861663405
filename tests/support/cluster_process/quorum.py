"""What the metadata quorum says of itself, and changes of its voters, asked over the wire from any node."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.clients.cluster.connection import Connection, ConnectionSettings
from crabka.errors import CrabkaError, OperationError
from crabka.protocol.apis import ApiKey, MessageTypes
from crabka.runtime import AsyncioNetwork
from tests.support.kafka.oracle import CLUSTER_ID

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Sequence

    from tests.support.cluster_process.nodes import ClusterNode

ASK_SECONDS = 30
SETTINGS = ConnectionSettings(client_id="quorum-admin", connect_timeout_ms=1000, request_timeout_ms=20_000)


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """One answer of DescribeQuorum; end offsets by node id."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: dict[int, int]
    observers: dict[int, int]


def describe_quorum(servers: Sequence[str]) -> QuorumDescription:
    """Ask the first of the servers that answers without an error; raises the last error of none does."""

    def build(types: MessageTypes) -> Any:
        partition = types.new("PartitionData", partition_index=0)
        topic = types.new("TopicData", topic_name="__cluster_metadata", partitions=[partition])
        return types.message(topics=[topic])

    answer = _ask(servers, ApiKey.DESCRIBE_QUORUM, build)
    found = answer.topics[0].partitions[0]
    return QuorumDescription(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        {voter.replica_id: voter.log_end_offset for voter in found.current_voters},
        {observer.replica_id: observer.log_end_offset for observer in found.observers},
    )


def add_voter(servers: Sequence[str], node: ClusterNode) -> None:
    """Make a running controller a voter. Raises OperationError as the quorum refuses."""

    def build(types: MessageTypes) -> Any:
        host, port = node.place.cluster_host, node.place.controller_port
        listener = types.new("Listener", name="CONTROLLER", host=host, port=port)
        who = {"voter_id": node.node_id, "voter_directory_id": node.directory_id}
        when = {"timeout": 15_000, "ack_when_committed": True}
        return types.message(cluster_id=CLUSTER_ID, listeners=[listener], **who, **when)

    _ask(servers, ApiKey.ADD_RAFT_VOTER, build)


def remove_voter(servers: Sequence[str], voter_id: int, directory_id: uuid.UUID) -> None:
    """Remove a voter, which may be the leader. Raises OperationError as the quorum refuses."""

    def build(types: MessageTypes) -> Any:
        return types.message(cluster_id=CLUSTER_ID, voter_id=voter_id, voter_directory_id=directory_id)

    _ask(servers, ApiKey.REMOVE_RAFT_VOTER, build)


def _ask(servers: Sequence[str], api_key: ApiKey, build: Callable[[MessageTypes], Any]) -> Any:
    return asyncio.run(_ask_any(servers, api_key, build))


async def _ask_any(servers: Sequence[str], api_key: ApiKey, build: Callable[[MessageTypes], Any]) -> Any:
    """The first answer without an error; a server that answers with one is asked no more, the next is."""
    failure: CrabkaError | None = None
    for server in servers:
        try:
            return await _ask_one(server, api_key, build)
        except CrabkaError as error:
            failure = error
    raise failure or ValueError("no servers")


async def _ask_one(server: str, api_key: ApiKey, build: Callable[[MessageTypes], Any]) -> Any:
    host, _, port = server.rpartition(":")
    connection = await Connection.open(AsyncioNetwork(), host, int(port), SETTINGS)
    try:
        answer = await connection.request(api_key, build)
    finally:
        connection.close()
        await connection.wait_closed()
    partitions = [partition for topic in getattr(answer, "topics", ()) for partition in topic.partitions]
    for part in (answer, *partitions):
        if part.error_code.value != 0:
            raise OperationError(part.error_code, part.error_message or api_key.name)
    return answer
