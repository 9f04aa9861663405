"""Transactions with real clients: commit, abort, isolation, fencing, timeout, offsets in transactions, restarts."""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.clients.foreign_transactions import (
    COMMITTED_READERS,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    REFUSED,
    TIMEOUT_S,
    TRANSACTIONAL,
    GroupPosition,
    high_watermark,
    last_stable_offset,
    read_settled,
    read_to_end,
)
from tests.support.clients.target import target_node
from tests.support.nodes.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka.admin import AdminClient

    from tests.interop.conftest import TopicMaker
    from tests.support.clients.foreign_transactions import LibraryProducer
    from tests.support.nodes.process import NodeProcess

    Opener = Callable[..., LibraryProducer]
    Settled = Callable[..., list[list[bytes]]]

pytestmark = [
    pytest.mark.interop,
    pytest.mark.allow_leaks("librdkafka keeps threads until it is collected"),
    # kafka-python forgets the sockets of refused connections, which it makes while a node restarts.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

_numbers = itertools.count(1)
# A coordinator that looks for expired transactions often; a killed Kafka that may register again soon.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that aborts expired transactions at once."""
    with target_node(tmp_path_factory.mktemp("transactions"), SETTINGS) as running:
        yield running


@pytest.fixture
def open_with(bootstrap: str, caplog: pytest.LogCaptureFixture) -> Iterator[Opener]:
    """Open an initialized producer of the library named; it is closed after the test."""
    # Captured messages hold exceptions, and those the sockets, until the session ends.
    caplog.set_level(logging.CRITICAL, logger="kafka")
    with contextlib.ExitStack() as opened:

        def open_one(library: str, *arguments: object) -> LibraryProducer:
            producer = TRANSACTIONAL[library](bootstrap, *arguments)
            opened.callback(producer.close)
            return producer

        yield open_one
    gc.collect()  # Forgotten sockets are found here, where their warning is expected.


@pytest.fixture(params=list(TRANSACTIONAL))
def opener(request: pytest.FixtureRequest, open_with: Opener) -> Opener:
    """Open an initialized producer of one library after the other."""
    return partial(open_with, request.param)


@pytest.fixture
def committed(admin: AdminClient, bootstrap: str) -> Settled:
    """The committed values of each partition of a topic, when no transaction is open."""
    return partial(read_settled, admin, bootstrap)


@pytest.fixture
def transactional_id() -> str:
    """A fresh transactional id."""
    return f"transactional-{next(_numbers)}"


def _transact(producer: LibraryProducer, topic: str, values: list[bytes], *, commit: bool = True) -> None:
    producer.begin()
    for value in values:
        producer.send(topic, 0, value)
    if commit:
        producer.commit()
    else:
        producer.abort()


def _fill(bootstrap: str, topic: str, values: list[bytes]) -> None:
    plain = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        plain.produce(topic, value, partition=0)
    assert plain.flush(120) == 0


def _committed_offset(bootstrap: str, group: str, topic: str, isolation: str = READ_COMMITTED) -> int:
    """The offset of the group; with read_committed librdkafka waits until it is stable (KIP-447)."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": isolation})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)
    consumer.close()
    return int(found.offset)


def test_committed_records_show_and_aborted_ones_do_not(
    bootstrap: str, make_topic: TopicMaker, committed: Settled, opener: Opener, transactional_id: str
) -> None:
    topic = make_topic()
    producer = opener(transactional_id)
    _transact(producer, topic, [b"a", b"b"])
    _transact(producer, topic, [b"lost", b"gone"], commit=False)
    _transact(producer, topic, [b"c"])
    _transact(producer, topic, [b"forgotten"], commit=False)
    assert committed(topic) == [[b"a", b"b", b"c"]]
    everything = [b"a", b"b", b"lost", b"gone", b"c", b"forgotten"]
    assert read_to_end(bootstrap, topic, 1, READ_UNCOMMITTED) == [everything]
    for name, reader in COMMITTED_READERS.items():
        assert reader(bootstrap, topic, 3) == [b"a", b"b", b"c"], name


def test_an_open_transaction_holds_back_all_that_follows(
    bootstrap: str, make_topic: TopicMaker, admin: AdminClient, opener: Opener, transactional_id: str
) -> None:
    topic = make_topic()
    producer = opener(transactional_id)
    producer.begin()
    assert producer.send(topic, 0, b"open") == 0
    _fill(bootstrap, topic, [b"plain"])
    assert high_watermark(admin, topic) == 2
    assert last_stable_offset(admin, topic) == 0
    assert read_to_end(bootstrap, topic, 1, READ_COMMITTED) == [[]]
    assert read_to_end(bootstrap, topic, 1, READ_UNCOMMITTED) == [[b"open", b"plain"]]
    producer.commit()
    assert read_settled(admin, bootstrap, topic) == [[b"open", b"plain"]]
    # The marker takes an offset too.
    assert last_stable_offset(admin, topic) == 3


def test_a_waiting_reader_gets_the_records_with_the_commit(
    bootstrap: str, make_topic: TopicMaker, opener: Opener, transactional_id: str
) -> None:
    topic = make_topic()
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    reader = Consumer({**settings, "isolation.level": READ_COMMITTED, "fetch.wait.max.ms": 30_000})
    reader.assign([TopicPartition(topic, 0, 0)])
    producer = opener(transactional_id)
    producer.begin()
    producer.send(topic, 0, b"late")
    assert reader.poll(0.1) is None
    producer.commit()
    message = reader.poll(120)
    assert message is not None
    assert message.value() == b"late"
    reader.close()


def test_a_commit_shows_all_partitions_of_all_topics(
    bootstrap: str, make_topic: TopicMaker, committed: Settled, opener: Opener, transactional_id: str
) -> None:
    topics = [make_topic(3), make_topic(3)]
    producer = opener(transactional_id)
    producer.begin()
    for topic, partition in itertools.product(topics, range(3)):
        producer.send(topic, partition, b"%d" % partition)
    for topic in topics:
        assert read_to_end(bootstrap, topic, 3, READ_COMMITTED) == [[], [], []]
    producer.commit()
    for topic in topics:
        assert committed(topic, 3) == [[b"0"], [b"1"], [b"2"]]


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(
    bootstrap: str, make_topic: TopicMaker, committed: Settled, opener: Opener, transactional_id: str
) -> None:
    topic = make_topic()
    zombie = opener(transactional_id)
    zombie.begin()
    zombie.send(topic, 0, b"zombie")
    successor = opener(transactional_id)
    # To initialize is to wait until what was open has ended, markers and all.
    assert len(read_to_end(bootstrap, topic, 1, READ_UNCOMMITTED)[0]) == 1
    assert read_to_end(bootstrap, topic, 1, READ_COMMITTED) == [[]]
    with pytest.raises(REFUSED):
        zombie.commit()
    _transact(successor, topic, [b"successor"])
    assert committed(topic) == [[b"successor"]]


def test_a_fenced_producer_can_write_no_more(
    bootstrap: str, make_topic: TopicMaker, opener: Opener, transactional_id: str
) -> None:
    topic = make_topic()
    zombie = opener(transactional_id)
    zombie.begin()
    zombie.send(topic, 0, b"before")
    opener(transactional_id)
    with pytest.raises(REFUSED):
        zombie.send(topic, 0, b"after")
    assert read_to_end(bootstrap, topic, 1, READ_UNCOMMITTED) == [[b"before"]]


def test_the_coordinator_aborts_a_transaction_that_lasts_too_long(
    bootstrap: str, make_topic: TopicMaker, admin: AdminClient, opener: Opener, transactional_id: str
) -> None:
    topic = make_topic()
    sleeper = opener(transactional_id, 1000)
    sleeper.begin()
    sleeper.send(topic, 0, b"slow")
    wait_until(lambda: last_stable_offset(admin, topic) == 2, "the abort marker is written")
    assert read_to_end(bootstrap, topic, 1, READ_COMMITTED) == [[]]
    with pytest.raises(REFUSED):
        sleeper.commit()
    assert read_to_end(bootstrap, topic, 1, READ_COMMITTED) == [[]]


def test_consume_transform_produce_moves_offsets_and_records_together(
    bootstrap: str, make_topic: TopicMaker, committed: Settled, opener: Opener, transactional_id: str
) -> None:
    source, sink, group = make_topic(), make_topic(), f"group-of-{transactional_id}"
    numbers = [b"%d" % number for number in range(20)]
    _fill(bootstrap, source, numbers)
    producer = opener(transactional_id)
    position = 0
    for attempt in range(8):
        rows = read_to_end(bootstrap, source, 1, READ_COMMITTED)[0][position : position + 5]
        producer.begin()
        for row in rows:
            producer.send(sink, 0, row + b"!")
        producer.send_offsets(GroupPosition(group, source, 0, position + len(rows)))
        if attempt % 2:
            producer.commit()
        else:
            producer.abort()
        before, position = position, max(0, _committed_offset(bootstrap, group, source))
        assert position == (before + len(rows) if attempt % 2 else before)
    assert position == len(numbers)
    assert committed(sink) == [[number + b"!" for number in numbers]]
    assert len(read_to_end(bootstrap, sink, 1, READ_UNCOMMITTED)[0]) == 2 * len(numbers)


def test_offsets_of_an_open_transaction_do_not_count_yet(
    bootstrap: str, make_topic: TopicMaker, opener: Opener, transactional_id: str
) -> None:
    topic, group = make_topic(), f"group-of-{transactional_id}"
    producer = opener(transactional_id)
    producer.begin()
    producer.send_offsets(GroupPosition(group, topic, 0, 7))
    assert _committed_offset(bootstrap, group, topic, READ_UNCOMMITTED) < 0
    producer.commit()
    assert _committed_offset(bootstrap, group, topic) == 7


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_open_transactions_go_on_after_a_restart_of_the_node(
    node: NodeProcess, make_topic: TopicMaker, committed: Settled, open_with: Opener, how: str
) -> None:
    group, source = f"group-of-{how}", make_topic()
    topics = {library: make_topic() for library in TRANSACTIONAL}
    producers = {library: open_with(library, f"{how}-{library}") for library in TRANSACTIONAL}
    for library, producer in producers.items():
        _transact(producer, topics[library], [b"a"])
        producer.begin()
        producer.send(topics[library], 0, b"b")
        producer.send_offsets(GroupPosition(f"{group}-{library}", source, 0, 7))
    getattr(node, how)()
    node.start()
    for library, producer in producers.items():
        assert read_to_end(node.bootstrap_servers, topics[library], 1, READ_COMMITTED) == [[b"a"]]
        producer.send(topics[library], 0, b"c")
        producer.commit()
        assert committed(topics[library]) == [[b"a", b"b", b"c"]]
        assert _committed_offset(node.bootstrap_servers, f"{group}-{library}", source) == 7


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_transactional_ids_are_taken_over_after_a_restart_of_the_node(
    node: NodeProcess, make_topic: TopicMaker, committed: Settled, open_with: Opener, how: str
) -> None:
    topic = make_topic()
    zombies = {library: open_with(library, f"taken-{how}-{library}") for library in TRANSACTIONAL}
    for zombie in zombies.values():
        _transact(zombie, topic, [b"committed"])
        _transact(zombie, topic, [b"aborted"], commit=False)
        zombie.begin()
        zombie.send(topic, 0, b"open")
    getattr(node, how)()
    node.start()
    for library, zombie in zombies.items():
        _transact(open_with(library, f"taken-{how}-{library}"), topic, [b"successor"])
        with pytest.raises(REFUSED):
            zombie.commit()
    count = len(TRANSACTIONAL)
    assert committed(topic) == [[b"committed"] * count + [b"successor"] * count]
