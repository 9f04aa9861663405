"""What a topic gets where its creator leaves it open."""

from __future__ import annotations

from crabka.control.topic_defaults import topic_defaults
from tests.support.sim_controller import SimControllers, controller_config, run_controllers


def test_the_defaults_are_those_of_the_node() -> None:
    config = controller_config(1, 1, {"num.partitions": "7", "default.replication.factor": "3"})

    async def main(cluster: SimControllers) -> None:
        runtime = (await cluster.active()).context.runtime
        defaults = topic_defaults(config, runtime)
        assert (defaults.partition_count, defaults.replication_factor) == (7, 3)
        assert defaults.server is config
        assert defaults.new_topic_id() != defaults.new_topic_id()

    run_controllers(main)
