from __future__ import annotations

from crabka.metadata.bootstrap import activation_records, feature_records
from crabka.metadata.records import AbortTransactionRecord, FeatureLevelRecord
from tests.support.recorded.metadata_logs import SINGLE, segments, stored_records


def test_an_empty_log_gets_what_kafka_wrote_into_its_own() -> None:
    golden = [record.message for record in stored_records(segments(SINGLE)[0])][3:12]
    bootstrap = [record.message for record in stored_records(SINGLE.parent / "bootstrap.checkpoint") if record.message]
    assert activation_records(bootstrap, log_is_empty=True, in_transaction=False) == golden


def test_the_cluster_default_of_min_isr_comes_from_the_config() -> None:
    records = activation_records(feature_records(), log_is_empty=True, in_transaction=False, min_insync_replicas=2)
    assert records[-2].value == "2"


def test_without_elr_no_default_is_written() -> None:
    levels = feature_records({"metadata.version": 30, "eligible.leader.replicas.version": 0})
    records = activation_records(levels, log_is_empty=True, in_transaction=False)
    assert [type(record).__name__.partition("V")[0] for record in records] == [
        "BeginTransactionRecord",
        "FeatureLevelRecord",
        "EndTransactionRecord",
    ]


def test_an_old_metadata_version_knows_no_transactions() -> None:
    records = activation_records(feature_records({"metadata.version": 12}), log_is_empty=True, in_transaction=False)
    assert records == [FeatureLevelRecord(name="metadata.version", feature_level=12)]


def test_an_open_transaction_is_aborted() -> None:
    abort = AbortTransactionRecord(reason="Controller failover")
    assert activation_records([], log_is_empty=False, in_transaction=True) == [abort]
    assert activation_records([], log_is_empty=False, in_transaction=False) == []
    assert activation_records(feature_records(), log_is_empty=True, in_transaction=True)[0] == abort
