"""A tour of Crabka for newcomers: `python -m crabka.cli.story`, `make run`.

Starts a node as a child process, writes orders into a topic, reads them back, sends the topic from the disk to a tier,
reads it from there, checks that nothing is missing, lets Spark make a table of the tier and query it, and shows how to
connect. Then the node serves until Ctrl-C; with `--once` the tour ends and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from crabka import __version__
from crabka.cli.main import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INTERRUPTED
from crabka.cli.node.process import NodeArgumentParser
from crabka.cli.node.up import DEFAULT_DATA_DIR, DEFAULT_LISTEN
from crabka.cli.program import as_typed, command_line, note_typed
from crabka.cli.session import with_cluster
from crabka.cli.story.spark_act import LakeFacts, answer_lines, give_lake_tour
from crabka.cli.story.tier_act import TIERED_TOPIC, TierFacts, keep_on_disk, look_at_tier, send_to_tier
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import NewTopic
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.fetcher.fetcher import Fetcher
from crabka.clients.fetcher.offsets import LATEST
from crabka.clients.producer.accumulator import RecordMetadata
from crabka.clients.producer.producer import Producer, ProducerSettings
from crabka.config.listeners import format_address, parse_address
from crabka.errors import ConfigError, CrabkaError
from crabka.ids import TopicPartition

TOPIC = "orders"
PARTITION_COUNT = 4
DEFAULT_RECORD_COUNT = 200_000
DEFAULT_TIER_DIR = "./crabka-tier"
DEFAULT_LAKE_DIR = "./crabka-lake"
_BATCH_BYTES = 128 * 1024
_PROGRESS_STEP = 2_000
_NAP_S = 0.5
# Copied segments are removed from the disk at once, so that the tour does not wait.
_HASTE = {
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
}
_STOP_TIMEOUT_S = 30
# Articles, and how many of a hundred orders they get.
_GOODS = {"coffee": 31, "tea": 19, "bread": 16, "apples": 12, "honey": 9, "cheese": 7, "olives": 4, "rice": 2}

Advance = Callable[[int], None]


class StoryError(CrabkaError):
    """The tour cannot continue."""


class Home(NamedTuple):
    """Directories of the data, the tier and the table of the tour."""

    data_dir: str
    tier: str
    lake: str


class Measured(NamedTuple):
    """Records, bytes and duration of a step."""

    record_count: int
    byte_count: int
    seconds: float

    def __str__(self) -> str:
        rate, megabytes = self.record_count / self.seconds, self.byte_count / self.seconds / 1e6
        return f"{self.record_count:,} records in {self.seconds:.1f} s: {rate:,.0f} records/s, {megabytes:.1f} MB/s"


class Tour(NamedTuple):
    """Results of the tour."""

    topic_id: uuid.UUID
    written: Measured
    read: Measured
    read_from_tier: Measured
    facts: TierFacts


def main(arguments: Sequence[str]) -> int:
    """Give the tour; return the exit code."""
    parser = NodeArgumentParser(prog="python -m crabka.cli.story", description="A tour of Crabka.")
    parser.add_argument("--once", action="store_true", help="end after the tour, keep no data")
    parser.add_argument("--records", type=int, default=DEFAULT_RECORD_COUNT, help="number of orders")
    parser.add_argument("--data-dir", default=DEFAULT_DATA_DIR, help=f"data directory ({DEFAULT_DATA_DIR})")
    parser.add_argument("--tier", default=DEFAULT_TIER_DIR, help=f"directory of the tier ({DEFAULT_TIER_DIR})")
    parser.add_argument("--lake", default=DEFAULT_LAKE_DIR, help=f"directory of the table ({DEFAULT_LAKE_DIR})")
    parser.add_argument("--no-spark", action="store_true", help="skip the table")
    options = parser.parse_args(arguments)
    console = Console()
    with contextlib.ExitStack() as stack:
        home = Home(options.data_dir, options.tier, options.lake)
        if options.once:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="crabka-story-"))
            home = Home(f"{directory}/data", f"{directory}/tier", f"{directory}/lake")
        console.print(Text.assemble(("Crabka ", "bold"), __version__, ": one node, a topic of orders, there and back"))
        listen = "127.0.0.1:0" if options.once else free_address()
        bootstrap = stack.enter_context(running_node(home, listen))
        tour = give_tour(console, bootstrap, options.records, home.tier)
        lake: LakeFacts | str = "left out"
        if not options.no_spark:
            lake = give_lake_tour(TOPIC, tour.topic_id, saying(console), tier=home.tier, lake_dir=home.lake)
        console.print(summary(bootstrap, home, tour, lake, goes_on=not options.once))
        if not options.once:
            with contextlib.suppress(KeyboardInterrupt):
                console.print(Text("The node serves until Ctrl-C.", style="dim"))
                while True:
                    # A pause without a limit could miss a signal that arrives just before it.
                    time.sleep(_NAP_S)
            console.print(Text("Stopping.", style="dim"))
    return 0


def free_address() -> str:
    """Return Kafka's usual address, or one with a free port if that is taken."""
    host, port = parse_address(DEFAULT_LISTEN)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return format_address(host, 0)
    return DEFAULT_LISTEN


@contextlib.contextmanager
def running_node(home: Home, listen: str) -> Iterator[str]:
    """Run `crabka up` as a child process; yield its bootstrap servers; stop it at the end. Raises StoryError."""
    command = [sys.executable, "-m", "crabka.cli", "up", "--log-level", "warning"]
    command += ["--data-dir", home.data_dir, "--listen", listen, "--tier", home.tier]
    command += [f"--set={name}={value}" for name, value in _HASTE.items()]
    # A session of its own: Ctrl-C reaches only this process, which then stops the node in order.
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)  # noqa: S603
    try:
        assert child.stdout is not None  # noqa: S101 - it is a pipe
        line = child.stdout.readline()
        if not line.startswith("bootstrap.servers="):
            raise StoryError(f"the node did not start, exit code {child.wait(_STOP_TIMEOUT_S)}")
        yield line.strip().partition("=")[2]
    finally:
        child.terminate()
        child.wait(_STOP_TIMEOUT_S)
        if child.stdout is not None:
            child.stdout.close()


def saying(console: Console) -> Callable[[str], contextlib.AbstractContextManager[None]]:
    """Return a display for a step of unknown length, and its duration."""

    @contextlib.contextmanager
    def say(step: str) -> Iterator[None]:
        started = time.perf_counter()
        with console.status(step):
            yield
        console.print(f"{step:<21} {time.perf_counter() - started:5.1f} s", highlight=False)

    return say


def give_tour(console: Console, bootstrap: str, record_count: int, tier: str) -> Tour:
    """Write orders, read them, send them to the tier and read them again. Raises StoryError if some are missing."""
    columns = (TextColumn("{task.description:<15}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:

        def step(name: str) -> Advance:
            task = progress.add_task(name, total=record_count)
            return lambda count: progress.advance(task, count)

        async def tour(cluster: Cluster) -> Tour:
            admin = Admin(cluster)
            topic_id, starts = await _prepare_topic(admin)
            written = await write_orders(cluster, record_count, step("writing"))
            read = await read_orders(cluster, starts, record_count, step("reading"))
            ends = await _ends(admin, starts)
            await send_to_tier(admin, starts, ends, step("disk to tier"))
            again = await read_orders(cluster, starts, record_count, step("reading tier"))
            return Tour(topic_id, written, read, again, await look_at_tier(cluster, TOPIC, tier))

        return with_cluster(bootstrap, tour)


async def _prepare_topic(admin: Admin) -> tuple[uuid.UUID, dict[TopicPartition, int]]:
    """Create the topic, or reuse that of an earlier tour; return its id and its end offsets."""
    topics = await admin.list_topics()
    if TOPIC not in topics:
        await admin.create_topics([NewTopic(TOPIC, PARTITION_COUNT, 1, TIERED_TOPIC)])
        topics = await admin.describe_topics([TOPIC])
    else:
        await keep_on_disk(admin, TOPIC)
    ends = await _ends(admin, [TopicPartition(TOPIC, index) for index in topics[TOPIC].partitions])
    return topics[TOPIC].topic_id, ends


async def _ends(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    found = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    return {partition: answer.offset for partition, answer in found.items()}


def orders(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield orders as key (customer) and value (JSON); the same ones at every tour."""
    rng = random.Random(2011)
    goods, shares = list(_GOODS), list(_GOODS.values())
    for number in range(count):
        customer = f"customer-{rng.randrange(5000):04d}"
        order = {
            "order": number,
            "customer": customer,
            "item": rng.choices(goods, shares)[0],
            "quantity": rng.randrange(1, 9),
            "price": rng.randrange(100, 5000) / 100,
        }
        yield customer.encode(), json.dumps(order).encode()


async def write_orders(cluster: Cluster, count: int, advance: Advance) -> Measured:
    """Write orders, all acknowledged at the end."""
    byte_count = 0
    started = time.perf_counter()
    async with Producer(cluster, ProducerSettings(batch_bytes=_BATCH_BYTES)) as producer:
        last: asyncio.Future[RecordMetadata] | None = None
        for number, (key, value) in enumerate(orders(count), start=1):
            last = await producer.send(TOPIC, value, key)
            byte_count += len(key) + len(value)
            if number % _PROGRESS_STEP == 0:
                advance(_PROGRESS_STEP)
                # Sending does not wait while there is room; this lets the loop process responses.
                await asyncio.sleep(0)
        await producer.flush()
        if last is not None:
            await last
    advance(count % _PROGRESS_STEP)
    return Measured(count, byte_count, time.perf_counter() - started)


async def read_orders(cluster: Cluster, starts: dict[TopicPartition, int], count: int, advance: Advance) -> Measured:
    """Read what was written and check it. Raises StoryError when an order is missing or came twice."""
    byte_count = 0
    numbers: list[int] = []
    started = time.perf_counter()
    async with Fetcher(cluster) as fetcher:
        fetcher.assign(starts)
        while len(numbers) < count:
            records = await fetcher.poll(timeout_ms=30_000, max_records=_PROGRESS_STEP)
            if not records:
                break
            for record in records:
                byte_count += len(record.key or b"") + len(record.value or b"")
                numbers.append(json.loads(record.value or b"{}")["order"])
            advance(len(records))
    if sorted(numbers) != list(range(count)):
        raise StoryError(f"{count} orders were written, {len(numbers)} came back, {len(set(numbers))} different ones")
    return Measured(len(numbers), byte_count, time.perf_counter() - started)


def summary(bootstrap: str, home: Home, tour: Tour, lake: LakeFacts | str, *, goes_on: bool) -> Panel:
    """Return the summary of the tour; with what to try next if the node goes on serving."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold cyan")
    facts.add_column()
    facts.add_row("node", f"{bootstrap}, data in {home.data_dir}")
    facts.add_row("topic", f"{TOPIC}, {PARTITION_COUNT} partitions, keyed by customer")
    facts.add_row("written", f"{tour.written} (acks=all, idempotent)")
    facts.add_row("read", f"{tour.read}")
    facts.add_row("tier", _tier_line(tour.facts, home))
    facts.add_row("read again", f"{tour.read_from_tier} (from the tier)")
    facts.add_row("checked", Text("every order came back exactly once, from the disk and from the tier", style="green"))
    _add_lake(facts, lake)
    facts.add_row("", "")
    if goes_on:
        _add_next_steps(facts, bootstrap)
    else:
        facts.add_row("next", "make run leaves the node running, and shows how to connect")
    return Panel(facts, title="A Kafka-compatible broker in Python", border_style="cyan", expand=False)


def _add_next_steps(facts: Table, bootstrap: str) -> None:
    facts.add_row("crabka", Text(command_line(f"records tail {TOPIC} -b {bootstrap}")))
    facts.add_row("", Text(command_line(f"tier status -b {bootstrap}")))
    facts.add_row("kcat", f"kcat -b {bootstrap} -C -t {TOPIC} -o beginning -c 5")
    facts.add_row("python", Text(f'confluent_kafka.Producer({{"bootstrap.servers": "{bootstrap}"}})'))
    facts.add_row("JVM", f"kafka-topics.sh --bootstrap-server {bootstrap} --describe --topic {TOPIC}")


def _add_lake(facts: Table, lake: LakeFacts | str) -> None:
    if isinstance(lake, str):
        facts.add_row("Spark", lake)
        return
    read = f"{lake.row_count:,} rows in {lake.read_seconds:.1f} s"
    facts.add_row("Spark", f"{read}, straight from the tier: nothing came from the broker")
    facts.add_row("table", f"{lake.table} (Delta), {lake.new_row_count:,} new rows, {lake.file_count} files")
    facts.add_row("answer", "revenue by item, from the table:")
    for item, line in answer_lines(lake.answer):
        facts.add_row("", f"{item:<7} {line}")
    facts.add_row("plot", str(lake.plot))


def _tier_line(facts: TierFacts, home: Home) -> str:
    fsck = "fsck: clean"
    if facts.verdict.exit_code != 0:
        fsck = f"fsck: {len(facts.verdict.faults)} faults (`make clean` removes what earlier tours left)"
    stored = f"{facts.segment_count} segments, {facts.remote_bytes / 1e6:.1f} MB in {home.tier}"
    return f"{stored}; {facts.local_bytes / 1e6:.1f} MB left on the disk; {fsck}"


def run(arguments: Sequence[str]) -> int:
    """Give the tour; errors become one line."""
    note_typed(sys.argv)
    try:
        return main(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except CrabkaError as error:
        print(f"crabka: {as_typed(str(error))}", file=sys.stderr)
        return EXIT_BAD_INPUT if isinstance(error, ConfigError) else EXIT_FAILED
