"""What a topic gets where its creator leaves it open."""

from __future__ import annotations

from crabka.control.topic_defaults import topic_defaults
from tests.support.async_tests import run_with
from tests.support.sim_controller import SimControllers, controller_config, run_controllers


@run_with(run_controllers)
async def test_the_defaults_are_those_of_the_node(cluster: SimControllers, /) -> None:
    config = controller_config(1, 1, {"num.partitions": "7", "default.replication.factor": "3"})

    runtime = (await cluster.active()).context.runtime
    defaults = topic_defaults(config, runtime)
    assert (defaults.partition_count, defaults.replication_factor) == (7, 3)
    assert defaults.server is config
    assert defaults.new_topic_id() != defaults.new_topic_id()
