from __future__ import annotations

from pathlib import Path

import pytest

from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.spark.plan.context import open_context
from crabka.spark.source.options import SourceOptions


def options(broker: Broker, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"}
    return SourceOptions.parse(given | {k.replace("__", "."): v for k, v in more.items()}, streaming=False)


def test_a_cluster_tells_where_its_tier_is(tmp_path: Path) -> None:
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
        (told,) = [record.message for record in caplog.records if "brokers serve everything" in record.message]
        assert told.endswith(f"there is no tier at {tmp_path}/on-another-host: the directory does not exist")
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
