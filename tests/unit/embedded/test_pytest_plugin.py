"""The fixtures that the package brings for other people's tests."""

from __future__ import annotations

from crabka.clients.sync.admin import SyncAdmin
from crabka.embedded import Broker


def test_topic_exists_on_the_session_broker(crabka_broker: Broker, crabka_topic: str) -> None:
    with SyncAdmin(crabka_broker.bootstrap_servers) as admin:
        assert len(admin.list_topics()[crabka_topic].partitions) == 1


def test_broker_is_one_for_the_session(crabka_broker: Broker, request: object) -> None:
    assert request.getfixturevalue("crabka_broker") is crabka_broker  # type: ignore[attr-defined]
