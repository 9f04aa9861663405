"""What the error about a corrupt batch says, also after a journey between processes."""

from __future__ import annotations

import pickle

from crabka.errors import CorruptDataError
from crabka.spark.decode import CorruptBatch, Origin

ERROR = CorruptBatch(
    Origin("orders", 3, "orders-3/x.log", 4_096), "the checksum is wrong", base_offset=17, size_bytes=99, skippable=True
)


def test_the_message_names_topic_partition_offset_object_and_position() -> None:
    assert str(ERROR) == ("batch at offset 17 of orders-3, object orders-3/x.log, position 4096: the checksum is wrong")
    assert isinstance(ERROR, CorruptDataError)


def test_it_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(ERROR))  # noqa: S301 - our own bytes
    assert str(copy) == str(ERROR)
    assert (copy.topic, copy.partition, copy.object_name, copy.position) == ("orders", 3, "orders-3/x.log", 4_096)
    assert (copy.base_offset, copy.size_bytes, copy.skippable) == (17, 99, True)
