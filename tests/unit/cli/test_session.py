"""A command's connection to a cluster."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from crabka.cli import session
from crabka.cli.session import with_admin, with_cluster
from crabka.clients.cluster.cluster import Cluster, ClusterSettings
from crabka.clients.errors import SaslAuthenticationError
from crabka.errors import ConfigError


def test_calls_reach_the_broker(broker: str) -> None:
    description = with_admin(broker, lambda admin: admin.cluster.describe())
    assert [node.node_id for node in description.brokers] == [1]


def test_errors_of_the_work_come_through() -> None:
    async def fail(cluster: Cluster) -> None:
        raise ConfigError("the work failed")

    with pytest.raises(ConfigError, match="the work failed"):
        with_cluster("127.0.0.1:1", fail)


def test_expected_silence_is_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def explain(*_: object) -> AbstractAsyncContextManager[None]:
        raise ConfigError("it explains")

    async def nothing(cluster: Cluster) -> int:
        return cluster.settings.metadata_timeout_ms

    monkeypatch.setattr(session, "explaining_silence", explain)
    assert with_cluster("127.0.0.1:1", nothing, expects_silence=True) > 0
    with pytest.raises(ConfigError, match="it explains"):
        with_cluster("127.0.0.1:1", nothing)


def written(directory: Path, text: str) -> str:
    path = directory / "client.properties"
    path.write_text(text)
    return str(path)


def test_client_properties_say_how_to_connect(broker: str, tmp_path: Path) -> None:
    async def settings_of(cluster: Cluster) -> ClusterSettings:
        await cluster.any_connection()
        return cluster.settings

    unprotected = written(tmp_path, "security.protocol=PLAINTEXT\nclient.id=me\nlinger.ms=7\n")
    assert with_cluster(broker, settings_of, command_config=unprotected).connection.client_id == "me"
    assert with_cluster(broker, settings_of).connection.client_id == "crabka-cli"


def test_protection_that_the_broker_does_not_have_is_reported(broker: str, tmp_path: Path) -> None:
    user = "sasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=s3cret\n"
    config = written(tmp_path, f"security.protocol=SASL_PLAINTEXT\n{user}")
    with pytest.raises(SaslAuthenticationError, match=r"expects no SASL: .* set security.protocol to PLAINTEXT"):
        with_admin(broker, lambda admin: admin.cluster.describe(), command_config=config)


def test_mistakes_in_client_properties_are_reported_before_anything_happens(tmp_path: Path) -> None:
    for text, complaint in [
        ("security.protocol=TLS\n", r"security.protocol: TLS is not one of"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n", r"sasl.mechanism: OAUTHBEARER is not supported"),
    ]:
        with pytest.raises(ConfigError, match=complaint):
            with_admin("127.0.0.1:1", lambda admin: admin.cluster.describe(), command_config=written(tmp_path, text))
    missing = str(tmp_path / "missing.properties")
    with pytest.raises(ConfigError, match=r"cannot read .*missing.properties"):
        with_admin("127.0.0.1:1", lambda admin: admin.cluster.describe(), command_config=missing)
