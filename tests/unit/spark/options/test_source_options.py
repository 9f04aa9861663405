from __future__ import annotations

import logging

import pytest

from crabka.errors import ConfigError
from crabka.ids import TopicPartition, uuid_from_text
from crabka.spark.options.selection import EarliestLimit, LatestLimit, OffsetsLimit, Subscribe
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.options.where import parse_where
from tests.support.pickling import sent

BASE = {"kafka.bootstrap.servers": "a:1,b:2", "subscribe": "t"}
TIER_ONLY = {"subscribe": "t", "tier.metadata": "listing", "tier.uri": "file:///tier"}


def parse(streaming: bool = False, **options: str) -> SourceOptions:
    return SourceOptions.parse(
        BASE | {name.replace("__", "."): value for name, value in options.items()}, streaming=streaming
    )


def test_defaults_are_those_of_sparks_source() -> None:
    options = parse()
    assert options.strategy == Subscribe(frozenset({"t"}))
    assert (options.starting, options.ending) == (EarliestLimit(), LatestLimit())
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert not options.read_committed
    assert options.max_trigger_delay_ms == 900_000
    assert (options.read_mode, options.tier_metadata, options.max_tasks) == ("auto", "topic", 10_000)
    assert parse(streaming=True).starting == LatestLimit()


def test_names_are_compared_without_case() -> None:
    options = SourceOptions.parse(
        {"kafka.bootstrap.servers": "a:1", "SUBSCRIBE": "t", "startingoffsets": "EARLIEST", "MaxTasks": "7"},
        streaming=False,
    )
    assert options.max_tasks == 7


def test_every_option_of_sparks_source_is_read() -> None:
    options = parse(
        streaming=True,
        startingOffsets='{"t":{"0":-2,"1":5}}',
        startingOffsetsByTimestampStrategy="LATEST",
        failOnDataLoss="False",
        includeHeaders="true",
        minPartitions="3",
        maxRecordsPerPartition="10",
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="50",
        maxTriggerDelay="90s",
        kafkaConsumer__pollTimeoutMs="512",
        fetchOffset__numRetries="5",
        fetchOffset__retryIntervalMs="10",
        groupIdPrefix="x",
        partition__metadata__cache__ttl__ms="5000",
        kafka__group__id="g",
        kafka__max__poll__records="1",
    )
    assert options.starting == OffsetsLimit({TopicPartition("t", 0): -2, TopicPartition("t", 1): 5})
    assert options.latest_without_match
    assert not options.fail_on_data_loss
    assert options.include_headers
    assert (options.min_partitions, options.max_records_per_partition) == (3, 10)
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (100, 50)
    assert options.max_trigger_delay_ms == 90_000
    assert (options.poll_timeout_ms, options.offset_tries, options.offset_retry_interval_ms) == (512, 5, 10)


def test_options_of_the_tier_are_read() -> None:
    options = parse(
        tier__uri="s3://b/p",
        tier__topicId="ksqWDRxfTGu8jPNvmLEoUg",
        read__mode="tier",
        onCorrupt="report",
        isolation__level="read_committed",
        tier__config__secret__access__key="secret",
    )
    assert options.tier_uri == "s3://b/p"
    assert options.tier_topic_id == uuid_from_text("ksqWDRxfTGu8jPNvmLEoUg")
    assert (options.read_mode, options.on_corrupt, options.read_committed) == ("tier", "report", True)
    assert options.storage == {"secret.access.key": "secret"}
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": ""}, "no topics"),
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers must be given"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"minPartitions": "many"}, "minPartitions is a whole number"),
        ({"minPartitions": "4294967296"}, "minPartitions is a whole number of 32 bits"),
        ({"minPartitions": ""}, "minPartitions is a whole number, not an empty text"),
        ({"maxRecordsPerPartition": "1_000"}, "maxRecordsPerPartition is a whole number"),
        ({"includeHeaders": ""}, "includeHeaders is true or false"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({"partition.metadata.cache.ttl.ms": "0"}, "partition.metadata.cache.ttl.ms"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"tier.metadata": "snapshot", "tier.uri": "file:///x"}, "tier.snapshot"),
        ({"tier.metadata": "listing"}, "tier.uri"),
        ({"tier.metadata": "guess"}, "topic, snapshot, listing"),
        ({"read.mode": "both"}, "auto, tier, broker"),
        ({"tier.topicId": "x"}, "tier.topicId"),
        ({"commitGroup": "g"}, "streaming queries only"),
        ({"startingOffset": "latest"}, "did you mean startingOffsets?"),
        ({"kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?").replace(".", r"\.")) as caught:
        SourceOptions.parse(BASE | options, streaming=False)
    assert "\n" not in str(caught.value)


def test_a_lower_limit_above_the_upper_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="is higher than"):
        parse(streaming=True, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="4")


def test_limits_of_triggers_are_checked_in_streams() -> None:
    for name, value in (("maxOffsetsPerTrigger", "0"), ("minOffsetsPerTrigger", "x"), ("maxTriggerDelay", "soon")):
        with pytest.raises(ConfigError, match=f"^{name} "):
            parse(streaming=True, **{name: value})


@pytest.mark.parametrize(
    "given",
    [
        {"maxOffsetsPerTrigger": "0"},
        {"maxOffsetsPerTrigger": "x"},
        {"minOffsetsPerTrigger": ""},
        {"maxTriggerDelay": "soon"},
        {"minOffsetsPerTrigger": "0", "maxOffsetsPerTrigger": "0"},
    ],
)
def test_limits_of_triggers_are_without_effect_in_batch(given: dict[str, str]) -> None:
    assert parse(False, **given) == parse()


@pytest.mark.parametrize(("low", "message"), [("5", "is higher than"), ("x", "is a whole number")])
def test_both_limits_of_a_trigger_are_compared_even_in_batch(low: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(minOffsetsPerTrigger=low, maxOffsetsPerTrigger="4")


def test_limits_of_triggers_are_reported_in_batch(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crabka.spark.options.source_options._reported", set())
    with caplog.at_level(logging.INFO, "crabka.spark.options.source_options"):
        parse(streaming=True, maxTriggerDelay="1s")
        parse(maxTriggerDelay="1s")
    assert [record.getMessage() for record in caplog.records] == ["accepted without effect: maxTriggerDelay (in batch)"]


def test_a_tier_can_be_read_without_brokers() -> None:
    options = SourceOptions.parse(TIER_ONLY, streaming=False)
    assert options.bootstrap is None
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers"):
        SourceOptions.parse(TIER_ONLY | {"read.mode": "broker"}, streaming=False)
    with pytest.raises(ConfigError, match="commitGroup needs"):
        SourceOptions.parse(TIER_ONLY | {"commitGroup": "g"}, streaming=True)


def test_options_travel_to_executors() -> None:
    options = parse(startingOffsets='{"t":{"0":3}}', kafka__client__id="me")
    assert sent(options) == options


def test_options_without_effect_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "crabka.spark.options.source_options"):
        parse(kafka__only__logged__once="1")
        parse(kafka__only__logged__once="1")
    assert [record.getMessage() for record in caplog.records] == ["accepted without effect: kafka.only.logged.once"]


def test_conditions_are_for_batch_queries() -> None:
    assert parse(Where="offset > 5").where == parse_where("offset > 5")
    with pytest.raises(ConfigError, match="where is for batch queries only"):
        parse(streaming=True, where="offset > 5")
    with pytest.raises(ConfigError, match=r"where \(\): it ends"):
        parse(where="")
