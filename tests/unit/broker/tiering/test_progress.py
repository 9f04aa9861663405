"""What a log is told of the tier."""

from __future__ import annotations

import pytest

from crabka.broker.tiering.progress import lineage_of, note_copied_offset, require_ready
from crabka.remote.errors import NotReadyError
from tests.support.remote_segments import ORDERS
from tests.support.tier_scene import TierScene, passes


def test_the_log_is_told_what_the_tier_holds_of_it() -> None:
    scene = TierScene()

    async def main() -> None:
        first, second = scene.broker(1), scene.broker(2)
        first.fill(3)
        second.fill(2)
        with pytest.raises(NotReadyError):
            require_ready(second.tools.metadata, ORDERS)
        first.lead()
        await passes(3)
        require_ready(second.tools.metadata, ORDERS)
        assert list(lineage_of(second.log).epochs) == [0]
        assert note_copied_offset(second.tools.metadata, ORDERS, second.log) == 24
        assert second.log.tiering.highest_remote_offset == 24

    scene.run(main())


def test_what_is_known_already_is_not_looked_up_again() -> None:
    scene = TierScene()

    async def main() -> None:
        broker = scene.broker()
        broker.fill(3)
        broker.lead()
        await passes(3)
        broker.leave()
        await broker.manager._segments.remove(scene.listed()[0])
        metadata = broker.tools.metadata
        assert note_copied_offset(metadata, ORDERS, broker.log) == -1
        assert note_copied_offset(metadata, ORDERS, broker.log, verified_offset=9) == 29

    scene.run(main())
