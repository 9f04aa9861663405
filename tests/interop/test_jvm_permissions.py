"""Every API, asked by four users with different permissions: Kafka and Crabka answer with the same error codes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crabka.cli.main import execute
from crabka.clients import ClientSecurity, Connection, ConnectionSettings
from crabka.clients.cluster.connection import response_offset
from crabka.config.java_classes import STANDARD_AUTHORIZER
from crabka.config.properties import format_properties
from crabka.protocol.apis import ApiKey, encode_request, read_response
from crabka.runtime import AsyncioNetwork
from crabka.runtime import run as run_on_loop
from tests.support.kafka.oracle import JvmKafka, require_jvm, run_tool
from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.nodes.process import wait_until
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


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, as it was before: commands set up the logging of the process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


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


def test_commands_about_acls_work_with_kafka(
    kafka: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], root_logger: logging.Logger
) -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    file = tmp_path / "client.properties"
    file.write_text(format_properties({**login, "sasl.username": "root", "sasl.password": "root"}))
    options = ["--bootstrap", f"127.0.0.1:{kafka}", "--command-config", str(file), "--json"]
    grant = ["--allow", "User:dave", "--consumer", "--topic", "stock", "--group", "till", "--prefix"]
    assert execute(["acls", "add", *grant, *options]) == 0
    capsys.readouterr()

    def granted() -> set[tuple[str, str]]:
        assert execute(["acls", "list", "--principal", "User:dave", *options]) == 0
        return {(row["resource"], row["operation"]) for row in json.loads(capsys.readouterr().out)}

    # Kafka's broker may learn of an ACL a little after the controller has created it.
    assert wait_until(lambda: len(granted()) == 3, "the ACLs are listed")
    assert granted() == {("Topic", "Read"), ("Topic", "Describe"), ("Group", "Read")}
    asked = ["--principal", "User:dave", "--operation", "Read", "--topic", "stock-1"]
    assert execute(["acls", "explain", *asked, *options]) == 0
    assert json.loads(capsys.readouterr().out)[0]["allowed"]
    assert execute(["acls", "remove", *grant, "--execute", *options]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3
    assert wait_until(lambda: not granted(), "the ACLs are gone")


def test_kafka_acls_changes_acls_of_a_node(tmp_path: Path) -> None:
    require_jvm()
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with CrabkaProcess(tmp_path, settings) as node:
        tool, where = "org.apache.kafka.tools.AclCommand", ["--bootstrap-server", node.bootstrap_servers]
        grant = ["--allow-principal", "User:alice", "--producer", "--topic", "orders"]
        run_tool(tool, *where, "--add", *grant, "--resource-pattern-type", "prefixed")
        run_tool(tool, *where, "--add", "--deny-principal", "User:eve", "--operation", "All", "--cluster")
        listed = run_tool(tool, *where, "--list").stdout
        assert "ResourcePattern(resourceType=TOPIC, name=orders, patternType=PREFIXED)" in listed
        assert "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW" in listed
        assert "principal=User:eve, host=*, operation=ALL, permissionType=DENY" in listed
        run_tool(tool, *where, "--remove", "--force", "--topic", "orders", "--resource-pattern-type", "prefixed")
        left = run_tool(tool, *where, "--list").stdout
        assert "User:alice" not in left
        assert "User:eve" in left
