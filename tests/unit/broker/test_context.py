"""What handlers share."""

from __future__ import annotations

from tests.support.sim_node import SimNode


def test_the_image_is_always_the_newest(node: SimNode) -> None:
    context = node.context
    before = context.image
    node.create_topic("t")
    assert "t" in context.image.topics.by_name
    assert context.image is not before
    assert context.node_id == 1
