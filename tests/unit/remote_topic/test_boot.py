"""A manager comes up as soon as the metadata topic can be used, and not before."""

from __future__ import annotations

import asyncio
import logging

import pytest

from crabka.protocol.error_codes import ErrorCode
from crabka.remote_topic.boot import start_topic_based_manager
from crabka.remote_topic.kafka_event_log import KafkaMetadataEventLogConfig
from crabka.remote_topic.settings import RemoteTopicSettings
from crabka.testing.remote_samples import SAMPLE_PARTITION, sample_segment, sample_update
from tests.support.async_tests import run_with
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.tier_topic.events import FINISHED
from tests.support.tier_topic.manager import SNAPSHOTS, until
from tests.support.tier_topic.topic import serve_create_topics


def test_the_topic_is_asked_for_until_it_can_be_made(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def test(simulation: ClientSimulation) -> None:
        refusals = [ErrorCode.invalid_replication_factor] * 30
        asked = serve_create_topics(simulation.brokers, *refusals)
        settings = RemoteTopicSettings(initialization_retry_max_timeout_ms=30_000)
        config = KafkaMetadataEventLogConfig(bootstrap=simulation.bootstrap, node_id=1, topic=settings)
        manager = await start_topic_based_manager(simulation.runtime, config, SNAPSHOTS)
        assert len(asked) == 31
        await manager.stop()

    simulate(test)
    levels = [record.levelno for record in caplog.records if "cannot be used yet" in record.message]
    assert len(levels) == 30
    # After the time that the setting gives, it is logged as an error; the node goes on trying.
    assert levels[0] == logging.INFO
    assert levels[-1] == logging.ERROR


@run_with(simulate, node_ids=(1, 2, 3))
async def test_a_manager_over_kafka_clients_survives_a_restart(simulation: ClientSimulation, /) -> None:
    serve_create_topics(simulation.brokers)
    config = KafkaMetadataEventLogConfig(bootstrap=simulation.bootstrap, node_id=1)
    segment = sample_segment(1, (0, 9))
    for events in (2, 0):
        manager = await start_topic_based_manager(simulation.runtime, config, SNAPSHOTS)
        manager.on_partition_leadership_changes([SAMPLE_PARTITION], [])
        await until(lambda m=manager: m.is_ready(SAMPLE_PARTITION))  # type: ignore[misc]
        if events:
            await manager.add_segment(segment)
            await manager.update_segment(sample_update(segment, FINISHED))
        assert manager.highest_offset_for_epoch(SAMPLE_PARTITION, 0) == 9
        assert manager.status().events_applied == events
        await manager.stop()


@run_with(simulate)
async def test_waiting_for_the_topic_can_be_given_up(simulation: ClientSimulation, /) -> None:
    simulation.brokers.close()
    config = KafkaMetadataEventLogConfig(bootstrap=simulation.bootstrap, node_id=1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(300):
            await start_topic_based_manager(simulation.runtime, config, SNAPSHOTS)
