from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabka.broker.tiering.bootstrap.follower_tier import FollowerTier
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.storage.small import append, make_batch
from tests.support.tiers.remote_reading import TierWorld


def test_a_node_without_a_tier_cannot_begin_behind_one() -> None:
    unused: Any = None
    tier = FollowerTier(lambda: None, unused)
    with pytest.raises(OperationError) as caught:
        asyncio.run(tier.start_after(unused, 0, 5))
    assert caught.value.error_code is ErrorCode.offset_moved_to_tiered_storage


def test_the_start_comes_from_the_tier() -> None:
    unused: Any = None
    with TierWorld() as world:
        append(world.log, make_batch(3))
        world.log.roll(0)
        append(world.log, make_batch(1))
        world.tier()
        tier = FollowerTier(lambda: world.reads, unused)
        assert world.run(tier.start_after(world.partition, 0, 2)).start_offset == 3
