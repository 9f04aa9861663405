"""Brokers inside a Python process: a test kit for everything that speaks Kafka, and small programs.

Importing this package loads no broker: the pytest plugin is in it, and every test run of an environment loads that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.embedded.broker import Broker
    from crabka.embedded.cluster import Cluster
    from crabka.embedded.cluster_node import ClusterNode
    from crabka.embedded.edge.fault import Fault
    from crabka.embedded.edge.journal import Journal, JournalEntry
    from crabka.embedded.row import Row
    from crabka.embedded.settings import Settings
    from crabka.embedded.topics import TopicFactory

__all__ = ["Broker", "Cluster", "ClusterNode", "Fault", "Journal", "JournalEntry", "Row", "Settings", "TopicFactory"]

__getattr__ = lazy_exports(
    __name__,
    {
        "broker": ["Broker"],
        "cluster": ["Cluster"],
        "cluster_node": ["ClusterNode"],
        "edge.fault": ["Fault"],
        "edge.journal": ["Journal", "JournalEntry"],
        "row": ["Row"],
        "settings": ["Settings"],
        "topics": ["TopicFactory"],
    },
)
