"""Fixtures of the interop tests: one real node per module, an admin client, topics with fresh names."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.target import target_node
from tests.support.kafka.oracle import require_jvm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.nodes.process import NodeProcess

_numbers = itertools.count(1)


class TopicMaker(Protocol):
    """Creates a topic and returns its name."""

    def __call__(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create the topic with a fresh name."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One running node, shared by the tests of a module."""
    with target_node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap(node: NodeProcess) -> str:
    """Address of the module's node."""
    return node.bootstrap_servers


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    """A librdkafka admin client for the module's node."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture(scope="module")
def make_topic(admin: AdminClient) -> TopicMaker:
    """Create topics with fresh names."""

    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"topic-{next(_numbers)}"
        # Tests use timestamps of the past; retention by time would delete those records half a minute later.
        settings = {"retention.ms": "-1", **(config or {})}
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(120)
        return name

    return make


@pytest.fixture(scope="module")
def jvm() -> None:
    """Skip, or fail in CI, where Kafka's own tools cannot run."""
    require_jvm()
