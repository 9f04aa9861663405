from __future__ import annotations

import gc
from pathlib import Path

import pytest

from crabka.clients.errors import ClientNetworkError
from crabka.embedded import Broker
from crabka.errors import ConfigError, OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.context import collection_paused, open_context, with_retries


def options(broker: Broker, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"}
    return SourceOptions.parse(given | {k.replace("__", "."): v for k, v in more.items()}, streaming=False)


def test_a_cluster_publishes_where_its_tier_is(tmp_path: Path) -> None:
    tier = tmp_path / "cold"
    with Broker(tier=tier) as broker:
        with open_context(options(broker)) as context:
            assert context.tier_uri == f"file://{tier}"
            assert context.objects is not None
        with open_context(options(broker, read__mode="broker")) as context:
            assert context.objects is None
        with open_context(options(broker), with_tier=False) as context:
            assert context.objects is None


def test_a_tier_that_is_out_of_reach_leaves_everything_to_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = f"file://{tmp_path}/on-another-host"
    monkeypatch.setattr("crabka.spark.plan.context.ask_tier_uri", lambda _session: elsewhere)
    with Broker() as broker:
        for _ in range(2):
            with open_context(options(broker)) as context:
                assert (context.objects, context.tier_uri) == (None, None)
        (found,) = [record.message for record in caplog.records if "brokers serve everything" in record.message]
        assert found.endswith(f"there is no tier at {tmp_path}/on-another-host: the directory does not exist")
        for insisting in ({"read__mode": "tier"}, {"tier__uri": elsewhere}):
            with pytest.raises(ConfigError, match="there is no tier at"), open_context(options(broker, **insisting)):
                pass


def test_wrong_settings_of_a_tier_are_not_hidden_by_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crabka.spark.plan.context.ask_tier_uri", lambda _session: "s3://bucket/prefix")
    with (
        Broker() as broker,
        pytest.raises(ConfigError, match="bogus"),
        open_context(options(broker, tier__config__bogus="x")),
    ):
        pass


def test_a_cluster_without_a_tier_serves_everything_itself() -> None:
    with Broker() as broker:
        with open_context(options(broker)) as context:
            assert context.objects is None
            assert context.session is not None
        with (
            pytest.raises(ConfigError, match=r"read\.mode=tier needs tier\.uri"),
            open_context(options(broker, read__mode="tier")),
        ):
            pass


OPTIONS = SourceOptions.parse(
    {
        "kafka.bootstrap.servers": "x:1",
        "subscribe": "t",
        "fetchOffset.numRetries": "3",
        "fetchOffset.retryIntervalMs": "0",
    },
    streaming=False,
)


def test_a_question_is_asked_as_often_as_the_options_say() -> None:
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        if len(asked) < 3:
            raise ClientNetworkError("no broker there")
        return "answer"

    assert with_retries(OPTIONS, ask) == "answer"
    asked.clear()

    def fail() -> str:
        asked.append(1)
        raise ClientNetworkError("no broker there")

    with pytest.raises(ClientNetworkError):
        with_retries(OPTIONS, fail)
    assert len(asked) == 3


def test_what_time_does_not_heal_is_not_asked_again() -> None:
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        raise OperationError(ErrorCode.topic_authorization_failed, "no")

    with pytest.raises(OperationError):
        with_retries(OPTIONS, ask)
    assert len(asked) == 1


def test_the_collector_rests_until_the_last_pause_ends() -> None:
    assert gc.isenabled()
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_a_pause() -> None:
    with pytest.raises(ValueError, match="broken"), collection_paused():
        raise ValueError("broken")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
