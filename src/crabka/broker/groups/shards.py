"""The shards of groups: where they live, and what they are called."""

from __future__ import annotations

from typing import TypeAlias

from crabka.broker.coordinators import shards
from crabka.broker.groups.shard import GroupShard

OFFSETS_TOPIC = "__consumer_offsets"

HostedShard: TypeAlias = shards.HostedShard[GroupShard]
