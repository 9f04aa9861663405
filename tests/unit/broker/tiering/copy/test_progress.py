"""What a log is told of the tier."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.copy.progress import lineage_of, note_copied_offset
from crabka.remote.errors import NotReadyError
from tests.support.async_tests import run_with
from tests.support.remote_segments import ORDERS
from tests.support.tier_scene import TierScene, in_scene, passes


@run_with(in_scene)
async def test_the_log_is_told_what_the_tier_holds_of_it(scene: TierScene, /) -> None:

    first, second = scene.broker(1), scene.broker(2)
    first.fill(3)
    second.fill(2)
    with pytest.raises(NotReadyError):
        second.tools.metadata.require_ready(ORDERS)
    first.lead()
    await passes(3)
    second.tools.metadata.require_ready(ORDERS)
    assert list(lineage_of(second.log).epochs) == [0]
    assert note_copied_offset(second.tools.metadata, ORDERS, second.log) == 24
    assert second.log.highest_remote_offset == 24


@run_with(in_scene)
async def test_what_is_known_already_is_not_looked_up_again(scene: TierScene, /) -> None:

    broker = scene.broker()
    broker.fill(3)
    broker.lead()
    await passes(3)
    broker.leave()
    await broker.manager._segments.remove(scene.listed()[0])
    metadata = broker.tools.metadata
    assert note_copied_offset(metadata, ORDERS, broker.log) == -1
    assert note_copied_offset(metadata, ORDERS, broker.log, verified_offset=9) == 29
