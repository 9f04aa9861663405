from __future__ import annotations

from pathlib import Path

import pytest

from crabka.cli.lake.options import TablePlace, TopicPlace, read_schema
from crabka.errors import ConfigError


def test_a_lake_knows_the_time(tmp_path: Path) -> None:
    lake = TablePlace(root=str(tmp_path), table_format="parquet").open()
    assert lake.root == str(tmp_path)
    assert lake.now_ms() > 1_700_000_000_000
    with pytest.raises(ConfigError, match="not a table format"):
        TablePlace(root=str(tmp_path), table_format="csv").open()


def test_options_of_the_source_come_from_everywhere(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    place = TopicPlace(
        bootstrap="host:1",
        command_config=str(config),
        tier="file:///tier",
        option=["failOnDataLoss=false", "tier.uri=file:///other"],
    )
    assert place.source_options() == {
        "kafka.bootstrap.servers": "host:1",
        "kafka.security.protocol": "SSL",
        "tier.uri": "file:///other",
        "failOnDataLoss": "false",
    }


def test_a_tier_alone_needs_no_cluster() -> None:
    place = TopicPlace(bootstrap="host:1", tier="file:///tier", option=["tier.metadata=listing"])
    assert place.source_options() == {
        "tier.uri": "file:///tier",
        "tier.metadata": "listing",
    }


def test_a_schema_is_given_by_itself_or_in_a_file(tmp_path: Path) -> None:
    assert read_schema(None) is None
    assert read_schema("a long, b string") == "a long, b string"
    assert read_schema(' {"type": "record"}') == ' {"type": "record"}'
    (tmp_path / "schema").write_text("a long")
    assert read_schema(str(tmp_path / "schema")) == "a long"
    with pytest.raises(ConfigError, match="nowhere"):
        read_schema("nowhere")
