"""The power loss test of followers finds planted bugs: each of these must make it fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from crabka.broker.replication import follower_state
from crabka.broker.replication.follower_changes import FollowerChanges
from crabka.log.partition.truncation import LogTruncation
from crabka.log.segment.segment import Segment
from crabka.testing import MemoryFile
from tests.support.power_loss.follower import run

MAX_SEEDS = 60


def cut_at_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """As before KIP-101: epochs do not count."""

    def at_high_watermark(*_args: Any, log_end_offset: int, high_watermark: int) -> int:
        return min(high_watermark, log_end_offset)

    patch.setattr(follower_state, "truncation_offset", at_high_watermark)


def leave_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    async def save_nothing(_self: FollowerChanges, _paths: Iterable[str]) -> None:
        """Write no checkpoint."""

    patch.setattr(FollowerChanges, "_save_recovery_points", save_nothing, raising=False)
    patch.setattr(FollowerChanges, "__setattr__", _without("_save_recovery_points"))
    patch.setattr(LogTruncation, "announce", lambda _self, _offset: None)


def _without(name: str) -> Callable[[object, str, object], None]:
    def set_others(self: object, attribute: str, value: object) -> None:
        if attribute != name:
            object.__setattr__(self, attribute, value)

    return set_others


def cut_without_sync(patch: pytest.MonkeyPatch) -> None:
    truncate = Segment.truncate

    def forgetful(self: Segment, end_offset: int) -> int:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(MemoryFile, "fsync", lambda _self: None)
            return truncate(self, end_offset)

    patch.setattr(Segment, "truncate", forgetful)


@pytest.mark.parametrize("plant", [cut_at_the_high_watermark, leave_the_recovery_point, cut_without_sync])
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(MAX_SEEDS):
        try:
            run(seed)
        except AssertionError:
            return
    pytest.fail(f"{plant.__name__} was not found")
