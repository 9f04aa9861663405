"""The blocking fetcher over real sockets."""

from __future__ import annotations

import pytest

from crabka.clients.fetcher.fetcher import FetcherSettings, OffsetReset
from crabka.clients.fetcher.offsets import EARLIEST
from crabka.clients.sync.fetcher import SyncFetcher
from crabka.clients.sync.producer import SyncProducer
from crabka.ids import TopicPartition
from tests.support.clusters.loopback import loopback_cluster

FROM_START = FetcherSettings(offset_reset=OffsetReset.EARLIEST)
T0 = TopicPartition("t", 0)


def test_positions_can_be_moved() -> None:
    with loopback_cluster() as (cluster, bootstrap):
        cluster.create_topic("t")
        with SyncProducer(bootstrap) as producer:
            producer.send_many("t", ((None, b"%d" % number) for number in range(5)))
        with SyncFetcher(bootstrap, FROM_START) as fetcher:
            fetcher.assign({T0: 3})
            assert [record.offset for record in fetcher.poll(10_000)] == [3, 4]
            fetcher.seek(T0, 1)
            assert fetcher.poll(10_000)[0].offset == 1
            fetcher.seek_to([T0], EARLIEST)
            assert fetcher.position(T0) == 0
            with pytest.raises(KeyError):
                fetcher.seek(TopicPartition("t", 9), 0)
