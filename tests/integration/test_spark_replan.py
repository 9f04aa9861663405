"""Segments that vanish between plan and read, on a running broker: rows come from elsewhere, once and all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.clients.fetcher.offsets import LATEST_TIERED
from crabka.embedded import Broker
from crabka.ids import TopicPartition
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan import BrokerRange, ReadPlan, TierRange, plan_read
from crabka.spark.read import ReadSettings, read_split
from tests.support.nodes.process import wait_until

pytestmark = pytest.mark.allow_leaks("obstore keeps its threads")

T0 = TopicPartition("t", 0)
SETTINGS = {"remote.log.manager.task.interval.ms": "100", "log.initial.task.delay.ms": "0"}
TIERED = {"remote.storage.enable": "true", "internal.segment.bytes": "3000", "index.interval.bytes": "300"}
RECORDS = 200


def offsets(plan: ReadPlan, options: SourceOptions) -> list[int]:
    settings = ReadSettings.of(options, ["offset"], plan.tier_uri)
    batches = [batch for split in plan.splits for batch in read_split(split, settings)]
    return sorted(offset for batch in batches for offset in batch.column("offset").to_pylist())


def test_what_left_the_tier_is_read_from_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    tier = tmp_path / "tier"
    with Broker(tier=tier, settings=SETTINGS) as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1, 1, TIERED)])
        with SyncProducer(broker.bootstrap_servers) as producer:
            for start in range(0, RECORDS, 20):
                producer.send_many("t", [(None, b"%d" % start * 20)] * 20, partition=0)
        wait_until(
            lambda: admin.list_offsets({T0: LATEST_TIERED})[T0].offset >= RECORDS // 2, "half of it is in the tier"
        )
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"}
        options = SourceOptions.parse(given, streaming=False)
        plan = plan_read(options)
        ranges = [each for split in plan.splits for each in split.ranges]
        assert {type(each) for each in ranges} == {TierRange, BrokerRange}
        assert offsets(plan, options) == list(range(RECORDS))
        victims = sorted(tier.rglob("*.log"))
        assert len(victims) > 1
        for victim in victims[1:]:
            victim.unlink()
        # The metadata still names them, and the disk of the broker still has them.
        assert offsets(plan, options) == list(range(RECORDS))
        assert offsets(plan_read(options), options) == list(range(RECORDS))
