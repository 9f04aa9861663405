"""Topics of one test, on a broker that only remembers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from crabka.embedded.topics import PREFIX_CHARACTERS, TopicFactory, topic_prefix
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.embedded.under_test import UnderTest


class RememberingBroker:
    def __init__(self) -> None:
        self.topics: dict[str, dict[str, Any]] = {}

    def create_topic(self, name: str, partitions: int, **others: Any) -> None:
        self.topics[name] = {"partitions": partitions, **others}

    def delete_topic(self, name: str) -> None:
        if self.topics.pop(name, None) is None:
            raise OperationError(ErrorCode.unknown_topic_or_partition)


def factory(broker: RememberingBroker, prefix: str = "test_it") -> TopicFactory:
    return TopicFactory(cast("UnderTest", broker), prefix)


def test_names_begin_with_the_prefix_and_are_never_taken() -> None:
    broker = RememberingBroker()
    make = factory(broker)
    assert [make(), make("orders", partitions=3), make("orders")] == [
        "test_it-topic",
        "test_it-orders",
        "test_it-orders-2",
    ]
    assert broker.topics["test_it-orders"]["partitions"] == 3
    assert make("orders", exact=True, settings={"cleanup.policy": "compact"}) == "orders"
    assert broker.topics["orders"]["settings"] == {"cleanup.policy": "compact"}


def test_what_a_test_has_left_is_deleted_and_nothing_else() -> None:
    broker = RememberingBroker()
    broker.create_topic("foreign", 1)
    make = factory(broker)
    make("one")
    broker.delete_topic(make("two"))
    make("three")
    make.delete()
    make.delete()
    assert list(broker.topics) == ["foreign"]


def test_a_prefix_is_what_kafka_takes() -> None:
    assert topic_prefix("test_x[a b/ü.1]-gw0") == "test_x-a-b-1-gw0"
    assert len(topic_prefix("x" * 300)) == PREFIX_CHARACTERS
