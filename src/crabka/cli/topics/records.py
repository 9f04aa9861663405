"""`crabka records`: produce, consume, follow, and delete from the front."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from crabka.cli.node.process import parse_settings
from crabka.cli.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    CommandConfig,
    Execute,
    parse_partition,
    parse_partition_offset,
)
from crabka.cli.output import Row, bytes_as_json, print_done, print_plan_note, print_rows
from crabka.cli.session import with_admin, with_cluster
from crabka.cli.timeouts import answer_timeout_ms
from crabka.cli.topics.offsets import expand, parse_time
from crabka.clients.admin.admin import Admin
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.fetcher.fetcher import FetchedRecord, Fetcher, FetcherSettings
from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.clients.producer.accumulator import RecordMetadata
from crabka.clients.producer.producer import Producer, ProducerSettings
from crabka.errors import ConfigError
from crabka.ids import TopicPartition

app = typer.Typer(help="Records: produce, consume, follow, delete.", no_args_is_help=False)

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_POLL_MS = 500
_POLL_RECORDS = 2000

Place = Annotated[str, typer.Argument(metavar="TOPIC[:PARTITION]", help="Target of the records.", show_default=False)]
Places = Annotated[
    list[str], typer.Argument(metavar="TOPIC[:PARTITION]...", help="Partitions to read.", show_default=False)
]
# How a record is printed.
Line = Callable[[FetchedRecord], bytes]
ValuesOnly = Annotated[bool, typer.Option("--values", help="Print only values, one per line.")]


@app.command()
def produce(
    place: Place,
    values: Annotated[list[str] | None, typer.Argument(help="Values; without any, lines of stdin.")] = None,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", help="Split each value into key and value at this text.")
    ] = None,
    header: Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header.")] = None,
    codec: Annotated[str, typer.Option("--codec", help=f"{', '.join(CODECS)}.")] = "none",
    as_json: AsJson = False,
) -> None:
    """Write records and wait until they are acknowledged."""
    topic, partition = parse_partition(place)
    if codec not in CODECS:
        raise ConfigError(f"--codec {codec}: not one of {', '.join(CODECS)}")
    headers = tuple((name, text.encode()) for name, text in parse_settings(header or (), "--header").items())
    lines = (value.encode() for value in values) if values else (line.rstrip(b"\n") for line in sys.stdin.buffer)

    async def send(cluster: Cluster) -> list[RecordMetadata]:
        # A producer waits for a topic; the command reports one that does not exist.
        await Admin(cluster).describe_topics([topic])
        deliveries: list[asyncio.Future[RecordMetadata]] = []
        timeout_ms = answer_timeout_ms()
        settings = ProducerSettings(
            codec=CODECS[codec],
            request_timeout_ms=timeout_ms,
            delivery_timeout_ms=timeout_ms,
            max_block_ms=timeout_ms,
        )
        async with Producer(cluster, settings) as producer:
            for line in lines:
                own_key, value = _split(line, key, key_separator)
                deliveries.append(await producer.send(topic, value, own_key, partition=partition, headers=headers))
            await producer.flush()
        return [await delivery for delivery in deliveries]

    written = with_cluster(bootstrap, send, command_config=command_config)
    result = [{"topic": topic, "partition": each.partition, "offset": each.offset} for each in written]
    print_done(f"wrote {len(written)} record{'s' * (len(written) != 1)} to {place}", as_json=as_json, result=result)


@app.command()
def consume(
    places: Places,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    start: Annotated[
        str, typer.Option("--from", help="earliest, latest, an ISO time, or +N for offset N.")
    ] = "earliest",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")] = None,
    committed: Annotated[bool, typer.Option("--committed", help="Leave out aborted transactions.")] = False,
    values: ValuesOnly = False,
    as_json: AsJson = False,
) -> None:
    """Print the records up to the current end."""
    line = _line_of(values=values, as_json=as_json)
    reading = _Reading(places, start, count, committed=committed, follow=False)
    with_cluster(bootstrap, lambda cluster: reading.run(cluster, line), command_config=command_config)


@app.command()
def tail(
    places: Places,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    start: Annotated[str, typer.Option("--from", help="Start position, as in consume.")] = "latest",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")] = None,
    committed: Annotated[bool, typer.Option("--committed", help="Leave out aborted transactions.")] = False,
    values: ValuesOnly = False,
    as_json: AsJson = False,
) -> None:
    """Print new records until Ctrl-C."""
    line = _line_of(values=values, as_json=as_json)
    reading = _Reading(places, start, count, committed=committed, follow=True)
    with_cluster(bootstrap, lambda cluster: reading.run(cluster, line), command_config=command_config)


@app.command("delete-before")
def delete_before(
    places: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC:PARTITION:OFFSET...", help="-1 deletes everything.", show_default=False),
    ],
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Delete the records before an offset."""
    before = dict(parse_partition_offset(place) for place in places)
    if not execute:
        rows = with_admin(bootstrap, lambda admin: _deletions(admin, before), command_config=command_config)
        print_rows(("topic", "partition", "start", "new_start", "records"), rows, as_json=as_json)
        print_plan_note(execute=False, done="", as_json=as_json)
        return
    starts = with_admin(bootstrap, lambda admin: admin.delete_records(before), command_config=command_config)
    rows = [{"topic": each.topic, "partition": each.partition, "start": starts[each]} for each in before]
    print_rows(("topic", "partition", "start"), rows, as_json=as_json)


async def _deletions(admin: Admin, before: dict[TopicPartition, int]) -> list[Row]:
    """Return a row for each partition; `records` counts offsets: a compacted log has fewer."""
    await expand(admin, [f"{each.topic}:{each.partition}" for each in before])
    starts = await admin.list_offsets(dict.fromkeys(before, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(before, LATEST))
    rows: list[Row] = []
    for each, offset in before.items():
        start, end = starts[each].offset, ends[each].offset
        if offset > end:
            raise ConfigError(f"{each.topic}:{each.partition}:{offset}: the log ends at {end}")
        new_start = end if offset < 0 else max(offset, start)
        row = {"topic": each.topic, "partition": each.partition, "start": start, "new_start": new_start}
        rows.append({**row, "records": new_start - start})
    return rows


def _split(line: bytes, key: str | None, separator: str | None) -> tuple[bytes | None, bytes]:
    if separator is not None:
        own_key, found, value = line.partition(separator.encode())
        if found:
            return own_key, value
    return (None if key is None else key.encode()), line


class _Reading:
    """One pass over partitions: up to their current end, or without end."""

    def __init__(self, places: list[str], start: str, count: int | None, *, committed: bool, follow: bool) -> None:
        self._places = places
        self._offset = int(start[1:]) if start.startswith("+") and start[1:].isdecimal() else None
        self._timestamp = parse_time(start) if self._offset is None else LATEST
        self._left = count
        self._committed = committed
        self._follow = follow

    async def run(self, cluster: Cluster, line: Line) -> None:
        """Read and print."""
        admin = Admin(cluster)
        partitions = await expand(admin, self._places)
        latest = await admin.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=self._committed)
        ends = {partition: found.offset for partition, found in latest.items()}
        async with Fetcher(cluster, FetcherSettings(read_committed=self._committed)) as fetcher:
            fetcher.assign(dict.fromkeys(partitions, self._offset))
            if self._offset is None:
                await fetcher.seek_to(partitions, self._timestamp)
            while self._goes_on(fetcher, ends):
                limit = min(_POLL_RECORDS, self._left or _POLL_RECORDS)
                found = await fetcher.poll(_POLL_MS, limit)
                wanted = [record for record in found if self._follow or record.offset < ends[_place(record)]]
                _print_records(wanted, line)
                if self._left is not None:
                    self._left -= len(wanted)

    def _goes_on(self, fetcher: Fetcher, ends: dict[TopicPartition, int]) -> bool:
        if self._left == 0:
            return False
        return self._follow or any((fetcher.position(partition) or 0) < end for partition, end in ends.items())


def _place(record: FetchedRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


def _print_records(records: Iterable[FetchedRecord], line: Line) -> None:
    """Print some records and flush them."""
    for record in records:
        sys.stdout.buffer.write(line(record) + b"\n")
    sys.stdout.buffer.flush()


def _plain_line(record: FetchedRecord) -> bytes:
    """Return place, time, key and value between tabs."""
    place = f"{record.topic}\t{record.partition}\t{record.offset}\t{record.timestamp}\t"
    return place.encode() + (record.key or b"") + b"\t" + (record.value or b"")


def _value_line(record: FetchedRecord) -> bytes:
    return record.value or b""


def _json_line(record: FetchedRecord) -> bytes:
    entry = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_as_json(record.key),
        "value": bytes_as_json(record.value),
        "headers": [[name, bytes_as_json(value)] for name, value in record.headers],
    }
    return json.dumps(entry, ensure_ascii=False).encode()


def _line_of(*, values: bool, as_json: bool) -> Line:
    """Return how a record is printed."""
    if values and as_json:
        raise ConfigError("--values and --json exclude each other")
    if as_json:
        return _json_line
    return _value_line if values else _plain_line
