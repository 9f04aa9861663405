"""A cluster in which all log in, brokers and controllers at each other too, through a storm of faults."""

from __future__ import annotations

import logging

import pytest

from crabka.clients.security.security import ClientSecurity
from crabka.security.sasl.listener_rules import PLAIN_MODULE
from tests.support.cluster_sim.layout import Shape
from tests.support.cluster_sim.world import RunConditions, run_world
from tests.support.scale import scaled, soaking

PASSWORD = "canary"
ENTRY = f'{PLAIN_MODULE} required username="node" password="{PASSWORD}" user_node="{PASSWORD}" user_ann="{PASSWORD}";'
SETTINGS = {
    # The names of the listeners are those of all simulated clusters.
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": ENTRY,
    "listener.name.controller.plain.sasl.jaas.config": ENTRY,
    # All sessions end during a storm, several times.
    "connections.max.reauth.ms": "2000",
}
ANN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ann",
    "sasl.password": PASSWORD,
}


@pytest.mark.parametrize("shape", [Shape.SPLIT, Shape.COMBINED] if soaking() else [Shape.SPLIT])
def test_a_cluster_of_log_ins_keeps_its_promises(shape: Shape, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for seed in range(1, 1 + scaled(1, 40)):
        conditions = RunConditions(shape=shape, settings=SETTINGS, security=ClientSecurity.from_properties(ANN))
        world = run_world(seed, conditions)
        assert world.model.acknowledged_count
    assert PASSWORD not in caplog.text
    assert "refused at listener" not in caplog.text
