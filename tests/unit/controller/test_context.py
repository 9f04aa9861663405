"""What handlers of the controller role share."""

from __future__ import annotations

from tests.support.async_tests import run_with
from tests.support.quorum.node import new_topic
from tests.support.quorum.sim_controllers import SimControllers, run_controllers


@run_with(run_controllers)
async def test_the_image_is_always_the_newest(cluster: SimControllers, /) -> None:
    context = (await cluster.active()).context
    assert context.node_id == 1
    await context.quorum.append(new_topic("t", 1))
    assert "t" in context.image.topics.by_name


@run_with(run_controllers, min_insync_replicas="2", unclean_leader_election_enable="true")
async def test_the_rules_are_those_of_the_file(cluster: SimControllers, /) -> None:
    rules = (await cluster.active()).context.rules
    assert (rules.node_id, rules.min_insync_replicas, rules.unclean_leader_election) == (1, 2, True)
