"""Every API, asked by four users with different permissions: Kafka and Crabka answer with the same error codes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from crabka.clients import ClientSecurity, Connection, ConnectionSettings
from crabka.clients.cluster.connection import response_offset
from crabka.config.java_classes import STANDARD_AUTHORIZER
from crabka.protocol.apis import ApiKey, encode_request, read_response
from crabka.runtime import AsyncioNetwork
from crabka.runtime import run as run_on_loop
from tests.support.kafka.oracle import JvmKafka, require_jvm
from tests.support.nodes.sim_node import build, row
from tests.support.security.calls import ACLS, CALLS, TOPICS, USERS, TopicIds, chosen_versions, outcome, request_body
from tests.support.security.guarded_node import GuardedNode, guarded_node, versions_of
from tests.support.wire.ports import free_port

pytestmark = [pytest.mark.interop, pytest.mark.slow]
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class KafkaWithUsers:
    """Apache Kafka with an authorizer, asked over one connection of each user."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.topic_ids: TopicIds = {}
        self._connections: dict[str, Connection] = {}

    async def open(self) -> None:
        network = AsyncioNetwork()
        for user in USERS:
            login = {"sasl.username": user, "sasl.password": user}
            properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **login}
            settings = ConnectionSettings(security=ClientSecurity.from_properties(properties))
            self._connections[user] = await Connection.open(network, "127.0.0.1", self._port, settings)

    async def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
            await connection.wait_closed()

    async def ask(self, user: str, api_key: ApiKey, version: int, body: Any) -> Any:
        answer = self._connections[user].post(api_key, version, encode_request(body))
        async with asyncio.timeout(5):
            frame = memoryview(await answer)
        return read_response(api_key, version, frame, response_offset(api_key, version, frame))

    async def prepare(self) -> None:
        creations = [
            row(
                "AclCreation",
                resource_type=int(acl.resource_type),
                resource_name=acl.name,
                resource_pattern_type=int(acl.pattern_type),
                principal=acl.principal,
                host=acl.host,
                operation=int(acl.operation),
                permission_type=int(acl.permission),
            )
            for acl in ACLS
        ]
        await self.ask("root", ApiKey.CREATE_ACLS, 3, build(ApiKey.CREATE_ACLS, 3, creations=creations))
        topics = [
            row("CreatableTopic", name=name, num_partitions=1, replication_factor=1, assignments=(), configs=[])
            for name in TOPICS
        ]
        body = build(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=30_000, validate_only=False)
        created = await self.ask("root", ApiKey.CREATE_TOPICS, 7, body)
        self.topic_ids = {topic.name: topic.topic_id for topic in created.topics}
        for key_type in (0, 1):
            body = build(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=("open",))
            while (await self.ask("root", ApiKey.FIND_COORDINATOR, 4, body)).coordinators[0].error_code != 0:
                await asyncio.sleep(0.1)
        body = request_body("init idempotent", 4, self.topic_ids)
        while (await self.ask("root", ApiKey.INIT_PRODUCER_ID, 4, body)).error_code != 0:
            await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a Kafka for users."""
    require_jvm()
    running = JvmKafka(tmp_path_factory.mktemp("kafka"))
    users_port = free_port()
    plain, users = f"PLAINTEXT://127.0.0.1:{running.port}", f"USERS://127.0.0.1:{users_port}"
    controller = f"CONTROLLER://127.0.0.1:{running._controller_port}"
    logins = " ".join(f'user_{user}="{user}"' for user in USERS)
    running.settings = {
        "listeners": f"{plain},{users},{controller}",
        "advertised.listeners": f"{plain},{users}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f"{PLAIN} required {logins};",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:root",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
    }
    with running:
        yield users_port


@pytest.fixture(scope="module")
def crabka_node() -> Iterator[GuardedNode]:
    with guarded_node() as node:
        yield node


def questions() -> Iterator[tuple[str, ApiKey, int, str]]:
    for call, (api_key, _) in CALLS.items():
        for version in chosen_versions(versions_of(api_key)):
            for user in USERS:
                yield call, api_key, version, user


async def kafkas_outcomes(port: int) -> dict[tuple[str, int, str], Any]:
    kafka = KafkaWithUsers(port)
    await kafka.open()
    try:
        await kafka.prepare()
        found: dict[tuple[str, int, str], Any] = {}
        for call, api_key, version, user in questions():
            body = request_body(call, version, kafka.topic_ids)
            try:
                found[call, version, user] = outcome(await kafka.ask(user, api_key, version, body))
            except TimeoutError:
                pytest.fail(f"Kafka did not answer {call} v{version} as {user}")
        return found
    finally:
        await kafka.close()


def test_error_codes_of_every_api_are_those_of_kafka(kafka: int, crabka_node: GuardedNode) -> None:
    theirs = run_on_loop(kafkas_outcomes(kafka))
    differences = []
    for call, api_key, version, user in questions():
        ours = outcome(crabka_node.call(user, call, api_key, version))
        if ours != theirs[call, version, user]:
            only_ours = [each for each in ours if each not in theirs[call, version, user]]
            only_theirs = [each for each in theirs[call, version, user] if each not in ours]
            differences.append(f"{call} v{version} as {user}: ours {only_ours}, Kafka's {only_theirs}")
    assert not differences, "\n".join(differences)
