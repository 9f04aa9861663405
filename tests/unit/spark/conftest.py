"""What tests of Spark's side share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def plan_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What plans remember of a tier ends with the test."""
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path / "cache"))
