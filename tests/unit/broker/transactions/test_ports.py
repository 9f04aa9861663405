from __future__ import annotations

from typing import get_type_hints

from crabka.broker.transactions import ports
from crabka.broker.transactions.local_markers import LocalMarkerWriter


def test_the_writer_of_a_node_has_the_shape_of_the_port() -> None:
    names = {**vars(ports), "Sequence": list, "TopicPartition": tuple}
    wanted = get_type_hints(ports.MarkerWriter.write, names)
    assert list(get_type_hints(LocalMarkerWriter.write, names)) == list(wanted) == ["markers", "return"]
