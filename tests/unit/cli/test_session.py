"""A command's connection to a cluster."""

from __future__ import annotations

import pytest

from crabka.cli.session import with_admin, with_cluster
from crabka.clients.cluster import Cluster
from crabka.errors import ConfigError


def test_calls_reach_the_broker(broker: str) -> None:
    description = with_admin(broker, lambda admin: admin.describe_cluster())
    assert [node.node_id for node in description.brokers] == [1]


def test_errors_of_the_work_come_through() -> None:
    async def fail(cluster: Cluster) -> None:
        raise ConfigError("the work failed")

    with pytest.raises(ConfigError, match="the work failed"):
        with_cluster("127.0.0.1:1", fail)
