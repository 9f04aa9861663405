"""Every Python client writes with every codec, every client reads it back: keys, values, headers, timestamps."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.support.clients.foreign import CLIENTS, CODECS, Headers, Sent

if TYPE_CHECKING:
    from tests.interop.conftest import TopicMaker

pytestmark = pytest.mark.interop

BASE_MS = 1_700_000_000_000
WRITTEN = list(itertools.product(CLIENTS, CODECS))


def _rows(writer: str) -> list[Sent]:
    # kafka-python refuses to send a null header value.
    null_header: Headers = (("null", None),) if writer != "kafka-python" else ()
    shapes = [
        Sent(b"key", b"value " * 200),
        Sent(None, b"no key"),
        Sent(b"tombstone", None),
        *([Sent(None, None)] if writer == "confluent-kafka" else []),  # The others refuse to send such a record.
        Sent(b"", b""),
        Sent("schlüssel 🦀".encode(), bytes(range(256))),
        Sent(b"h", b"headers", (("a", b"1"), ("a", b"2"), *null_header, ("empty", b""), ("ü", b"\x00\xff"))),
    ]
    return [row._replace(timestamp=BASE_MS + 10 * index) for index, row in enumerate(shapes * 3)]


@pytest.fixture(scope="module")
def topics(bootstrap: str, make_topic: TopicMaker) -> dict[tuple[str, str], str]:
    """One topic for each client and codec, filled."""
    names = {pair: make_topic() for pair in WRITTEN}
    for (client, codec), topic in names.items():
        rows = _rows(client)
        assert CLIENTS[client].produce(bootstrap, topic, rows, codec) == list(range(len(rows)))
    return names


@pytest.mark.parametrize("reader", CLIENTS)
@pytest.mark.parametrize(("writer", "codec"), WRITTEN)
def test_reader_sees_exactly_what_writer_sent(
    bootstrap: str, topics: dict[tuple[str, str], str], reader: str, writer: str, codec: str
) -> None:
    rows = _rows(writer)
    found = CLIENTS[reader].consume(bootstrap, topics[writer, codec], len(rows), 0)
    assert [read.offset for read in found] == list(range(len(rows)))
    assert [read.row for read in found] == rows
    assert not any(read.log_append_time for read in found)


@pytest.mark.parametrize("reader", CLIENTS)
def test_reader_starts_in_the_middle_of_a_compressed_batch(
    bootstrap: str, topics: dict[tuple[str, str], str], reader: str
) -> None:
    rows = _rows("confluent-kafka")
    found = CLIENTS[reader].consume(bootstrap, topics["confluent-kafka", "zstd"], len(rows) - 5, 5)
    assert [(read.offset, read.row) for read in found] == list(enumerate(rows))[5:]
