"""The parts of a broker know each other as they should."""

from __future__ import annotations

from tests.support.nodes.sim_node import SimNode, batch


def test_settings_that_change_while_it_runs_reach_the_parts(node: SimNode) -> None:
    node.create_topic("t")
    assert node.set_configs(4, "1", log_cleaner_io_buffer_load_factor="0.5") == 0
    assert node.context.config.log_cleaner_io_buffer_load_factor == 0.5
    assert node.set_configs(4, "1", leader_replication_throttled_rate="1000") == 0
    partition = node.context.partitions.by_name("t", 0)
    assert partition.host.throttle.bytes_per_second == 1000


def test_all_parts_share_the_identity_of_the_broker(node: SimNode) -> None:
    registered = node.context.image.cluster.brokers[1]
    assert (node.context.identity.node_id, node.context.identity.broker_epoch) == (1, registered.epoch)
    assert node.context.fetchers is not None
    node.create_topic("t")
    assert node.produce("t", batch(b"a")).error_code == 0
