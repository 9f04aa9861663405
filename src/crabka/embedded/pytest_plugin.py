"""Fixtures for tests that need Kafka: one broker for the session, a fresh topic for each test.

`crabka_broker` gives a running `Broker`; `crabka_topic` the name of a topic with one partition that is deleted
afterwards. Override `crabka_broker_settings` in a conftest to start the broker with other settings.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabka.embedded.broker import Broker


@pytest.fixture(scope="session")
def crabka_broker_settings() -> Mapping[str, str]:
    """Kafka's properties for the session's broker."""
    return {}


@pytest.fixture(scope="session")
def crabka_broker(crabka_broker_settings: Mapping[str, str]) -> Iterator[Broker]:
    """A broker that runs as long as the session."""
    # Imported here, so that a test run without a broker does not load it.
    from crabka.embedded.broker import Broker

    with Broker(settings=crabka_broker_settings) as broker:
        yield broker


@pytest.fixture
def crabka_topic(crabka_broker: Broker) -> Iterator[str]:
    """The name of a new topic."""
    from crabka.clients.admin.admin_types import NewTopic
    from crabka.clients.sync.admin import SyncAdmin

    name = f"topic-{uuid.uuid4().hex}"
    with SyncAdmin(crabka_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partition_count=1)])
        yield name
        admin.delete_topics([name])
