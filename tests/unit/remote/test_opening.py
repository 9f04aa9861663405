"""Tools open a tier from settings alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.remote.backends.url import storage_settings_of_url
from crabka.remote.listing import TierListing
from crabka.remote.opening import open_storage_of
from tests.support.tiers.on_disk import write_tier
from tests.support.tiers.planted import two_segments


def test_directory_is_opened_by_its_address(tmp_path: Path) -> None:
    storage = open_storage_of(storage_settings_of_url(write_tier(tmp_path, two_segments())))
    assert isinstance(storage, TierListing)
    assert len(list(storage.list_objects())) == 10
    storage.close()


def test_directory_that_is_no_tier_is_not_made_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no tier"):
        open_storage_of(storage_settings_of_url(f"file://{tmp_path}"))
    assert list(tmp_path.iterdir()) == []
