"""The embedded broker as its users see it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from crabka.clients.admin.admin_types import ConfigOwner, NewTopic, ResourceType
from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.sync.admin import SyncAdmin
from crabka.clients.sync.fetcher import SyncFetcher
from crabka.clients.sync.producer import SyncProducer
from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.ids import TopicPartition

README = Path(__file__).parents[3] / "README.md"

pytestmark = pytest.mark.allow_leaks("librdkafka keeps threads until it is collected")


def test_example_of_the_readme_runs() -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    [example] = [text for text in examples if "crabka.embedded.Broker()" in text]
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 - the example is ours


def test_records_survive_a_restart_on_the_same_directory(tmp_path: Path) -> None:
    data_dir = str(tmp_path / "data")
    with Broker(data_dir=data_dir) as broker:
        _create_topic(broker, "kept")
        with SyncProducer(broker.bootstrap_servers) as producer:
            producer.send("kept", b"value").result()
    with Broker(data_dir=data_dir) as broker, SyncFetcher(broker.bootstrap_servers, FetcherSettings()) as fetcher:
        fetcher.assign({TopicPartition("kept", 0): 0})
        assert [record.value for record in fetcher.poll(10_000)] == [b"value"]


def test_async_context_manager_serves() -> None:
    async def scenario() -> str:
        async with Broker() as broker:
            return await asyncio.to_thread(_cluster_id, broker.bootstrap_servers)

    assert len(asyncio.run(scenario())) == 22


def test_settings_reach_the_node() -> None:
    with Broker(settings={"num.partitions": "4"}) as broker:
        _create_topic(broker, "wide")
        with SyncAdmin(broker.bootstrap_servers) as admin:
            assert len(admin.list_topics()["wide"].partitions) == 4


def test_a_tier_is_switched_on_and_settings_still_win(tmp_path: Path) -> None:
    settings = {"remote.log.manager.task.interval.ms": "77"}
    for tier in (tmp_path / "cold", f"file://{tmp_path}/cold"):
        with Broker(tier=tier, settings=settings) as broker, SyncAdmin(broker.bootstrap_servers) as admin:
            found = admin.describe_configs(ConfigOwner(ResourceType.BROKER, "1"))
            assert found["remote.log.storage.system.enable"].value == "true"
            assert found["remote.log.manager.task.interval.ms"].value == "77"
    with pytest.raises(ConfigError, match="is no storage"):
        Broker(tier="ftp://x")


def test_bad_setting_is_one_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        Broker(settings={"num.partitions": "many"}).start()


def test_address_is_unknown_before_the_start() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        _ = Broker().bootstrap_servers


def _create_topic(broker: Broker, name: str) -> None:
    with SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name)])


def _cluster_id(bootstrap_servers: str) -> str:
    with SyncAdmin(bootstrap_servers) as admin:
        return admin.cluster.describe().cluster_id or ""
