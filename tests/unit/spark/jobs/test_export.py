from __future__ import annotations

from pathlib import Path

import pytest

from crabka.embedded import Broker
from crabka.errors import ConfigError
from crabka.spark import export_snapshot
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.planner import plan_read
from tests.support.tiers.planted import two_segments
from tests.support.tiers.stores import write_tier


def test_what_is_exported_can_be_read_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
    listing = {"subscribe": "orders", "tier.uri": write_tier(two_segments(), tmp_path), "tier.metadata": "listing"}
    place = f"file://{tmp_path}/export"
    assert export_snapshot(listing, place) == 2
    exported = listing | {"tier.metadata": "snapshot", "tier.snapshot": place}
    plans = [plan_read(SourceOptions.parse(options, streaming=False)) for options in (listing, exported)]
    assert plans[0].splits == plans[1].splits


def test_a_tier_that_no_broker_publishes_has_to_be_named(tmp_path: Path) -> None:
    place = tmp_path / "export"
    with Broker() as broker:
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "orders"}
        with pytest.raises(ConfigError, match=r"does not say where its tier is; name the place by tier\.uri"):
            export_snapshot(options, f"file://{place}")
        with pytest.raises(ConfigError, match=r"with read\.mode=broker there is no tier to export"):
            export_snapshot(options | {"read.mode": "broker"}, f"file://{place}")
    assert not place.exists()
