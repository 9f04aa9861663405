from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.remote.removal_notice import COMMITTED, new_removal_notice
from crabka.spark.plan.catalog.segments import TierCatalog
from crabka.spark.plan.catalog.snapshot_catalog import load_snapshot_catalog, write_snapshot_file
from tests.support.tiers.segment_metadata import FINISHED, ORDERS, STARTED, remote_segment


def test_what_was_exported_is_read(tmp_path: Path) -> None:
    segments = (remote_segment(0, 9), remote_segment(10, 19), remote_segment(20, 29, state=STARTED))
    place = f"file://{tmp_path}/tier.snapshot"
    write_snapshot_file(place, TierCatalog({ORDERS: segments}))
    assert load_snapshot_catalog(place, lambda _: True).segments == {ORDERS: list(segments[:2])}
    assert load_snapshot_catalog(f"{tmp_path}/tier.snapshot", lambda _: False).segments == {}


def test_the_notice_that_all_segments_go_is_no_segment(tmp_path: Path) -> None:
    notice = new_removal_notice(ORDERS, uuid.UUID(int=9), broker_id=1, now_ms=0)
    committed = replace(notice, state=FINISHED, custom_metadata=COMMITTED)
    place = f"{tmp_path}/tier.snapshot"
    write_snapshot_file(place, TierCatalog({ORDERS: (remote_segment(0, 9), committed)}))
    assert load_snapshot_catalog(place, lambda _: True).segments == {ORDERS: [remote_segment(0, 9)]}


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tier\.snapshot: .*No such file"):
        load_snapshot_catalog(f"{tmp_path}/none", lambda _: True)
    (tmp_path / "other").write_bytes(b"x" * 100)
    with pytest.raises(ConfigError, match="no snapshot of remote log metadata"):
        load_snapshot_catalog(f"{tmp_path}/other", lambda _: True)
