"""The blocking admin client over real sockets."""

from __future__ import annotations

from crabka.clients.fetcher.offsets import LATEST
from crabka.clients.sync.admin import SyncAdmin
from crabka.ids import TopicPartition
from tests.support.clusters.loopback import loopback_cluster

T0 = TopicPartition("t", 0)


def test_admin_sees_topics_and_offsets() -> None:
    with loopback_cluster() as (cluster, bootstrap), SyncAdmin(bootstrap) as admin:
        cluster.create_topic("t", 2)
        assert set(admin.list_topics()) == {"t"}
        assert len(admin.describe_topics(["t"])["t"].partitions) == 2
        assert admin.list_offsets({T0: LATEST})[T0].offset == 0
        assert admin.cluster.describe_features() == {}
