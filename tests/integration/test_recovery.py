"""A cluster is lost but its bucket: a node that was recovered from it serves all that was tiered."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crabka.clients import (
    FetchedRecord,
    FetcherSettings,
    NewTopic,
    OffsetReset,
    ProducerSettings,
    SyncAdmin,
    SyncFetcher,
    SyncProducer,
)
from crabka.clients.fetcher.offsets import EARLIEST_LOCAL, LATEST
from crabka.embedded import Broker
from crabka.ids import TopicPartition
from tests.support.nodes.process import wait_until

TIERED = {"remote.storage.enable": "true", "internal.segment.bytes": "2000", "local.retention.ms": "1"}
T0 = TopicPartition("t", 0)


def write(bootstrap: str) -> None:
    """Write plain records, a committed and an aborted transaction."""
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic("t", 1, 1, configs=TIERED)])
    with SyncProducer(bootstrap, ProducerSettings(batch_bytes=400)) as producer:
        producer.send_many("t", ((b"%d" % number, b"plain-%d" % number) for number in range(200)), partition=0)
    settings = ProducerSettings(transactional_id="id", batch_bytes=400, transaction_timeout_ms=600_000)
    with SyncProducer(bootstrap, settings) as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(50):
                producer.send("t", b"committed-%d" % number, partition=0)
        producer.begin_transaction()
        for number in range(50):
            producer.send("t", b"aborted-%d" % number, partition=0)
        producer.flush()
        producer.abort_transaction()


def write_late(bootstrap: str) -> None:
    """Write a transaction whose records are in several segments."""
    with SyncProducer(bootstrap, ProducerSettings(transactional_id="late", batch_bytes=400)) as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(100):
                producer.send("t", b"late-%d" % number, partition=0)


def tiered_end(bootstrap: str) -> int:
    with SyncAdmin(bootstrap) as admin:
        return admin.list_offsets({T0: EARLIEST_LOCAL})[T0].offset


def lose_last_segment(tier: Path) -> None:
    """Leave the tier as if the cluster was lost before the last segment, with the end of a transaction, was copied."""
    names = sorted(tier.glob("kafka-tiered-storage/t-0-*/*"))
    for path in names:
        if path.name[:20] == names[-1].name[:20]:
            path.unlink()


def read(bootstrap: str, end_offset: int, *, committed: bool) -> list[FetchedRecord]:
    settings = FetcherSettings(offset_reset=OffsetReset.EARLIEST, read_committed=committed)
    records: list[FetchedRecord] = []
    with SyncFetcher(bootstrap, settings) as fetcher:
        fetcher.assign([T0])

        def is_read() -> bool:
            records.extend(fetcher.poll(1_000))
            return (fetcher.position(T0) or 0) >= end_offset

        wait_until(is_read, f"offset {end_offset} is read")
    return records


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_everything_in_the_tier_is_read_after_the_cluster_is_gone(tmp_path: Path) -> None:
    tier, data = tmp_path / "tier", tmp_path / "data"
    with Broker(data_dir=str(data), tier=tier) as broker:
        bootstrap = broker.bootstrap_servers
        write(bootstrap)
        with SyncAdmin(bootstrap) as admin:
            written_end = admin.list_offsets({T0: LATEST})[T0].offset
        write_late(bootstrap)
        wait_until(lambda: tiered_end(bootstrap) > written_end + 100, "all is tiered")
        before = read(bootstrap, written_end, committed=False)
        seen = {record.offset: (record.key, record.value, record.timestamp) for record in before}
    shutil.rmtree(data)
    lose_last_segment(tier)
    # In a process of its own: the library of object stores keeps descriptors until it ends.
    command = [sys.executable, "-m", "crabka.cli", "recover", "--tier", f"file://{tier}", "--data-dir", str(data)]
    subprocess.run(command, check=True, timeout=60)
    with Broker(data_dir=str(data), tier=tier) as broker:
        bootstrap = broker.bootstrap_servers
        with SyncAdmin(bootstrap) as admin:
            wait_until(lambda: admin.describe_topics(["t"])["t"].partitions[0].leader >= 0, "there is a leader")
            end = admin.list_offsets({T0: LATEST})[T0].offset
            stable = admin.list_offsets({T0: LATEST}, read_committed=True)[T0].offset
        # The transaction without an end was aborted, by the marker at the end, so that no reader waits for it.
        assert written_end < stable == end
        after = read(bootstrap, end, committed=False)
        tiered = {offset: row for offset, row in seen.items() if offset < end - 1}
        assert {record.offset: (record.key, record.value, record.timestamp) for record in after} == tiered
        assert len(tiered) > 300
        values = [record.value or b"" for record in read(bootstrap, end, committed=True)]
        assert values == [b"plain-%d" % n for n in range(200)] + [b"committed-%d" % n for n in range(50)]
        with SyncProducer(bootstrap, ProducerSettings(transactional_id="id")) as producer:
            producer.init_transactions()
            with producer.transaction():
                delivered = producer.send("t", b"new", partition=0)
            assert delivered.result(120).offset == end


def test_a_leader_without_its_local_log_goes_on_after_the_tier(tmp_path: Path) -> None:
    tier, data = tmp_path / "tier", tmp_path / "data"
    with Broker(data_dir=str(data), tier=tier) as broker:
        bootstrap = broker.bootstrap_servers
        with SyncAdmin(bootstrap) as admin:
            admin.create_topics([NewTopic("t", 1, 1, configs=TIERED)])
        with SyncProducer(bootstrap, ProducerSettings(batch_bytes=400)) as producer:
            producer.send_many("t", ((b"%d" % number, b"old-%d" % number) for number in range(300)), partition=0)
        wait_until(lambda: tiered_end(bootstrap) > 200, "most of it is only in the tier")
    for path in data.glob("**/t-0/*.log"):
        path.unlink()
    with Broker(data_dir=str(data), tier=tier) as broker:
        bootstrap = broker.bootstrap_servers
        with SyncProducer(bootstrap) as producer:
            offsets = [producer.send("t", b"new-%d" % number, partition=0).result(120).offset for number in range(5)]
        end = offsets[0]
        assert offsets == list(range(end, end + 5))
        assert end > 200
        found = read(bootstrap, end + 5, committed=True)
    values = [b"old-%d" % number for number in range(end)] + [b"new-%d" % number for number in range(5)]
    assert [(record.offset, record.value) for record in found] == list(enumerate(values))
