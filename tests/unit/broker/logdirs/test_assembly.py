"""How the moves of a broker hang together."""

from __future__ import annotations

import uuid

from crabka.broker.logdirs.assembly import build_resolution
from crabka.ids import TopicPartition
from tests.support.moves.node import TWO_DIRS, place_of, throttle
from tests.support.nodes.sim_node import SimNode


def test_the_limit_of_moves_follows_the_settings() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        limit = node.context.moves.host.throttle
        assert limit.bytes_per_second is None
        throttle(node, 5000)
        assert limit.bytes_per_second == 5000
        node.restart()
        assert node.context.moves.host.throttle.bytes_per_second == 5000
        throttle(node, None)
        assert node.context.moves.host.throttle.bytes_per_second is None


def test_the_resolution_knows_where_the_metadata_place_a_replica() -> None:
    with SimNode(log_dirs=TWO_DIRS) as node:
        node.create_topic("t")
        context = node.context
        resolution = build_resolution(context.runtime, context.logs, context.config, context.image)
        assert resolution.assigned(TopicPartition("t", 0)) == context.logs.directory_id(place_of(node))
        assert resolution.assigned(TopicPartition("t", 1)) is None
        assert resolution.assigned(TopicPartition("u", 0)) is None
        assert resolution.dir_count == 2
        assert isinstance(resolution.new_uuid(), uuid.UUID)
