"""Which broker the interop tests judge: Crabka, or Apache Kafka as the oracle of the tests themselves.

`CRABKA_INTEROP_TARGET=jvm` runs the same tests against Apache Kafka, which proves that what they demand is right.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.cluster_process.nodes import CrabkaClusterNode, JvmClusterNode
from tests.support.kafka.oracle import JvmKafka, require_jvm
from tests.support.nodes.crabka_up import CrabkaProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.cluster_process.nodes import ClusterNode
    from tests.support.nodes.process import NodeProcess

VARIABLE = "CRABKA_INTEROP_TARGET"


def target_is_jvm() -> bool:
    """Whether the tests run against Apache Kafka itself."""
    chosen = os.environ.get(VARIABLE, "crabka")
    if chosen not in {"crabka", "jvm"}:
        raise ValueError(f"{VARIABLE} must be crabka or jvm, not {chosen}")
    return chosen == "jvm"


def target_cluster_node() -> type[ClusterNode]:
    """What the nodes of a cluster run."""
    if target_is_jvm():
        require_jvm()
        return JvmClusterNode
    return CrabkaClusterNode


def target_node(directory: Path, settings: Mapping[str, str] | None = None) -> NodeProcess:
    """A node of the chosen kind, not started yet."""
    if target_is_jvm():
        require_jvm()
        return JvmKafka(directory, settings)
    return CrabkaProcess(directory, settings)
