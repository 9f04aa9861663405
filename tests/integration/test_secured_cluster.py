"""Brokers and controllers among themselves: TLS with certificates of both sides, and log-ins on top."""

from __future__ import annotations

from pathlib import Path

from crabka.security.sasl.listener_rules import PLAIN_MODULE
from tests.support.cluster_process.cluster import ClusterProcesses, combined
from tests.support.cluster_process.nodes import CrabkaClusterNode
from tests.support.wire.certificates import Authority

PASSWORD = "canary"
ENTRY = f'{PLAIN_MODULE} required username="node" password="{PASSWORD}" user_node="{PASSWORD}";'


def test_three_nodes_reach_each_other_by_certificates_and_log_ins(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    store = authority.keystore(authority.issue("node"))
    settings = {
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:SASL_SSL,CONTROLLER:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    for listener in ("controller", "internal"):
        settings |= {
            f"listener.name.{listener}.ssl.client.auth": "required",
            f"listener.name.{listener}.plain.sasl.jaas.config": ENTRY,
        }
    with ClusterProcesses(tmp_path / "cluster", CrabkaClusterNode, combined(3), settings=settings) as cluster:
        # All replicas have to be in sync.
        cluster.create_topic("t", partitions=3)
        for node in cluster.nodes.values():
            assert PASSWORD not in node.last_output(10**6)
            assert "refused at listener" not in node.stderr_text()
