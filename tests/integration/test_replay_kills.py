"""A replay that is killed many times has in the end written every record once, in order."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from crabka.clients import FetchedRecord, FetcherSettings, NewTopic, OffsetReset, SyncAdmin, SyncFetcher
from crabka.embedded import Broker
from crabka.ids import TopicPartition
from tests.support.nodes.process import wait_until
from tests.support.recorded.files import GOLDEN

PLACES = [TopicPartition("copy", 0), TopicPartition("copy", 1)]
KILLS = 3
RATE = 60


def progress(bootstrap: str) -> int:
    with SyncAdmin(bootstrap) as admin:
        return sum(offset.offset for offset in admin.groups.list_offsets("replay").values())


def is_beyond(bootstrap: str, count: int) -> bool:
    return progress(bootstrap) > count


def read(bootstrap: str, count: int) -> list[FetchedRecord]:
    settings = FetcherSettings(offset_reset=OffsetReset.EARLIEST, read_committed=True)
    records: list[FetchedRecord] = []
    with SyncFetcher(bootstrap, settings) as fetcher:
        fetcher.assign(PLACES)

        def is_read() -> bool:
            records.extend(fetcher.poll(1_000))
            return len(records) >= count

        wait_until(is_read, "all is read")
        assert fetcher.poll(100) == []
    return records


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_record_is_there_once_after_kills(tmp_path: Path) -> None:
    expected = json.loads((GOLDEN / "single" / "expected.json").read_text())["read_committed"]["tiered"]
    environment = os.environ | {"CRABKA_CACHE_DIR": str(tmp_path / "cache")}
    with Broker(data_dir=str(tmp_path / "data")) as broker:
        bootstrap = broker.bootstrap_servers
        with SyncAdmin(bootstrap) as admin:
            admin.create_topics([NewTopic("copy", 2, 1)])
        child = [sys.executable, "-m", "tests.support.tier_topic.replay_child", bootstrap]
        for _ in range(KILLS):
            before = progress(bootstrap)
            running = subprocess.Popen([*child, str(RATE)], env=environment)
            try:
                wait_until(partial(is_beyond, bootstrap, before + 20), "it goes on")
            finally:
                running.kill()
                running.wait()
        assert 60 < progress(bootstrap) < 600
        subprocess.run([*child, "1e9"], env=environment, check=True, timeout=120)
        assert progress(bootstrap) == 600
        records = read(bootstrap, 600)
    for place in PLACES:
        rows = [(r.key, r.value, r.timestamp) for r in records if r.partition == place.partition]
        assert rows == [
            (base64.b64decode(key) if key is not None else None, base64.b64decode(value) if value else value, timestamp)
            for _, timestamp, key, value, *_ in expected[str(place.partition)]
        ]
