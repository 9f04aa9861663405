"""A real node on a simulated machine, with a small client that sends any request in any version.

Time is virtual, the disk is in memory, threads run on the loop: a test is a plain function that steps the node by
calling methods, and no method returns before what it asked for has happened.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from crabka.broker.api_table import SERVED
from crabka.broker.context import BrokerContext
from crabka.config.presets import one_node_properties
from crabka.config.server import ServerConfig
from crabka.controller.metadata_writer import MetadataWriter
from crabka.node.node import Node
from crabka.ports import FileSystem, Runtime
from crabka.protocol.apis import ApiKey, encode_request, read_response, request_types
from crabka.protocol.headers import RequestHeader, pack_request, parse_response_header
from crabka.quorum.formatting import format_storage
from crabka.records.builder import build_batch
from crabka.records.record import Record, decode_records
from crabka.testing import (
    FaultRule,
    FaultyFileSystem,
    InlineThreads,
    MemoryFileSystem,
    SimulatedClock,
    SimulatedNetwork,
    VirtualTimeLoop,
)
from tests.support.recorded.batches import batches_in

T = TypeVar("T")

NODE_HOST = "node"
CLIENT_HOST = "client"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
LENGTH_BYTES = 4


class WireClient(asyncio.Protocol):
    """One connection: frames out, frames in, in order."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.closed = False
        self._received = b""
        self._frames: list[bytes] = []
        self._arrival = asyncio.Event()
        self._correlation_id = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES], "big")
            if len(self._received) < end:
                break
            self._frames.append(self._received[LENGTH_BYTES:end])
            self._received = self._received[end:]
        self._arrival.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._arrival.set()

    def post(self, api_key: ApiKey, version: int, body: Any) -> int:
        """Send a request without waiting; return its correlation id."""
        self._correlation_id += 1
        header = RequestHeader(int(api_key), version, self._correlation_id, "sim", 0)
        self.transport.write(pack_request(header, encode_request(body)))
        return self._correlation_id

    async def frame(self) -> bytes:
        """Return the next response frame. Raises ConnectionError when the node closed the connection."""
        while not self._frames:
            if self.closed:
                raise ConnectionResetError("the node closed the connection")
            self._arrival.clear()
            await self._arrival.wait()
        return self._frames.pop(0)

    async def response(self, api_key: ApiKey, version: int) -> tuple[int, Any]:
        """Return correlation id and body of the next response."""
        frame = memoryview(await self.frame())
        correlation_id, offset = parse_response_header(frame, int(api_key), version)
        return correlation_id, read_response(int(api_key), version, frame, offset)


class Produced(NamedTuple):
    """One partition's row of a Produce response, in plain values."""

    error_code: int
    base_offset: int
    row: Any


class SimNode:
    """A node that can be started, stopped, crashed and asked; a context manager that starts and stops it."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        log_dirs: Sequence[str] = ("/d1",),
        fs: FileSystem | None = None,
    ) -> None:
        self.loop = VirtualTimeLoop()
        self.clock = SimulatedClock(self.loop)
        self.memory = MemoryFileSystem(now_ms=self.clock.now_ms)
        self.fs: FileSystem = fs if fs is not None else self.memory
        self.network = SimulatedNetwork(self.loop, random.Random(1))
        properties = one_node_properties(",".join(log_dirs), NODE_HOST, 9092)
        self.config, _ = ServerConfig.from_properties({**properties, **(settings or {})})
        self.runtime = self._new_runtime()
        format_storage(self.runtime, self.config, CLUSTER_ID)
        self.node: Node | None = None
        self._client: WireClient | None = None
        self._seed = 1

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start a node on what lies on the disk."""
        self.runtime = self._new_runtime()

        async def begin() -> Node:
            node = Node(self.config, self.runtime)
            await node.start()
            return node

        self.node = self.run(begin())
        return self

    def stop(self) -> None:
        """Stop cleanly; stopping a node that does not run is allowed."""
        node, self.node = self.node, None
        self._client = None
        if node is not None:
            self.run(node.stop())

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """Stop cleanly and start again, maybe with other settings."""
        self.stop()
        if settings:
            self.config, _ = ServerConfig.from_properties({**dict(self.config.static), **settings})
        self.start()

    def crash(self) -> None:
        """Lose power: whatever was not made durable is gone, no code of the node runs any more."""
        self.node = None
        self._client = None
        threads = self.runtime.threads
        assert isinstance(threads, InlineThreads)
        threads.kill()
        self.network.crash(NODE_HOST)
        self.memory.crash()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.run(asyncio.sleep(0))

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop and close the loop, whatever happened."""
        try:
            self.stop()
        finally:
            self.loop.run(asyncio.sleep(0))

    # -- stepping ------------------------------------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the loop until a coroutine is done."""
        return self.loop.run_until_complete(coroutine)

    def fail_dir(self, path: str) -> None:
        """Take a log dir offline as a failed write does, and let the node get over it."""

        async def fail() -> None:
            self.context.logs.on_dir_failure(path, OSError("gone"))

        self.run(fail())
        self.advance(10)

    def advance(self, milliseconds: float) -> None:
        """Let virtual time pass."""
        self.run(asyncio.sleep(milliseconds / 1000))

    @property
    def context(self) -> BrokerContext:
        """What the handlers of the running node see."""
        assert self.node is not None
        return self.node.context

    @property
    def metadata_writer(self) -> MetadataWriter:
        """What changes the metadata of the running node."""
        assert self.node is not None
        assert self.node.controller is not None
        return self.node.controller.context.metadata_writer

    def _new_runtime(self) -> Runtime:
        seed = getattr(self, "_seed", 0)
        self._seed = seed + 1
        return Runtime(
            clock=self.clock,
            rng=random.Random(seed),
            threads=InlineThreads(self.loop),
            fs=self.fs,
            network=self.network.host(NODE_HOST),
        )

    # -- asking --------------------------------------------------------------------------------------------------

    def connect(self, port: int = 9092) -> WireClient:
        """Open a connection."""
        host = self.network.host(CLIENT_HOST)
        _, protocol = self.run(host.connect(WireClient, NODE_HOST, port))
        assert isinstance(protocol, WireClient)
        return protocol

    @property
    def client(self) -> WireClient:
        """The connection that `ask` uses."""
        if self._client is None or self._client.closed:
            self._client = self.connect()
        return self._client

    def ask(self, api_key: ApiKey, version: int, body: Any = None, **fields: Any) -> Any:
        """Send one request and return the decoded body of its response.

        Raises ConnectionResetError if the node closes the connection instead.
        """
        client = self.client
        sent = client.post(api_key, version, body if body is not None else build(api_key, version, **fields))
        correlation_id, response = self.run(client.response(api_key, version))
        assert correlation_id == sent
        return response

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> Any:
        """Create a topic and return its row; config keys are given with '_' for '.'."""
        settings = [row("CreatableTopicConfig", name=k.replace("_", "."), value=v) for k, v in configs.items()]
        topic = row(
            "CreatableTopic",
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=(),
            configs=settings,
        )
        created = self.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=1000, validate_only=False).topics[0]
        assert created.error_code == 0, created
        return created

    def produce(self, topic: str, records: bytes | None, *, partition: int = 0, **options: Any) -> Produced:
        """Produce the bytes of a batch and return the partition's row."""
        version = options.pop("version", 9)
        body = produce_body(topic, records, partition=partition, version=version, **options)
        answer = self.ask(ApiKey.PRODUCE, version, body).responses[0].partition_responses[0]
        return Produced(int(answer.error_code), answer.base_offset, answer)

    def fetch(
        self, topic: str | uuid.UUID, offset: int = 0, *, partition: int = 0, version: int = 12, **options: Any
    ) -> Any:
        """Fetch from one partition and return its row."""
        body = fetch_body([(topic, partition, offset)], version=version, **options)
        return self.ask(ApiKey.FETCH, version, body).responses[0].partitions[0]

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """Return the values of all records of a partition, read through Fetch."""
        found: list[bytes | None] = []
        offset = self.context.partitions.by_name(topic, partition).log.log_start_offset
        while True:
            data = self.fetch(topic, offset, partition=partition, max_wait=0).records
            if not data:
                return found
            records = [record for record in read_records(data) if record.offset >= offset]
            found += [record.value for record in records]
            offset = records[-1].offset + 1

    def set_configs(self, resource_type: int, name: str, **configs: str | None) -> int:
        """Set configs (None deletes one) and return the error code; keys are given with '_' for '.'."""
        rows = [
            row("AlterableConfig", name=k.replace("_", "."), config_operation=1 if v is None else 0, value=v)
            for k, v in configs.items()
        ]
        resource = row("AlterConfigsResource", resource_type=resource_type, resource_name=name, configs=rows)
        answer = self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        return int(answer.responses[0].error_code)


class Row(NamedTuple):
    """A nested structure of a request by the name of its class; `build` makes it."""

    name: str
    fields: dict[str, Any]


def row(name: str, /, **fields: Any) -> Row:
    """Name a nested structure, e.g. `row("MetadataRequestTopic", name="t")`."""
    return Row(name, fields)


def build(api_key: ApiKey, version: int, **fields: Any) -> Any:
    """Build a request body from plain values and rows; fields that the version lacks are dropped."""
    types = request_types(int(api_key), version)

    def make(value: Any) -> Any:
        if isinstance(value, Row):
            return types.new(value.name, **{name: make(each) for name, each in value.fields.items()})
        return [make(each) for each in value] if isinstance(value, list) else value

    return types.message(**{name: make(value) for name, value in fields.items()})


def versions_of(api_key: ApiKey) -> range:
    """Return the versions of an API that a node serves."""
    api = SERVED[int(api_key)]
    return range(api.min_version, api.max_version + 1)


def batch(*values: bytes | None, key: bytes | None = None, timestamp: int = 1_767_225_600_000, **options: Any) -> bytes:
    """Build a batch of one record per value."""
    return build_batch([Record(i, timestamp, key, value) for i, value in enumerate(values)], **options)


def read_records(data: bytes) -> list[Record]:
    """Decode all complete batches of a Fetch response."""
    return [record for each in batches_in(bytes(data)) for record in decode_records(each)]


def produce_body(topic: str, records: bytes | None, *, partition: int = 0, version: int = 9, **options: Any) -> Any:
    """Build a Produce request for one partition."""
    types = request_types(int(ApiKey.PRODUCE), version)
    data = types.new("PartitionProduceData", index=partition, records=records)
    rows = [types.new("TopicProduceData", name=topic, topic_id=options.pop("topic_id", None), partition_data=[data])]
    fields = {"transactional_id": None, "acks": -1, "timeout": 1000, **options}
    return types.message(**fields, topic_data=rows)


def fetch_body(targets: Sequence[tuple[Any, int, int]], *, version: int = 12, **options: Any) -> Any:
    """Build a Fetch request of (topic name or id, partition, offset) rows."""
    types = request_types(int(ApiKey.FETCH), version)
    per_partition = {
        "partition_max_bytes": options.pop("partition_max_bytes", 1 << 20),
        "current_leader_epoch": options.pop("current_leader_epoch", -1),
        "last_fetched_epoch": options.pop("last_fetched_epoch", -1),
    }
    forgotten = options.pop("forgotten", ())
    topics = [
        types.new(
            "FetchTopic",
            **_topic_field(version, topic),
            partitions=[
                types.new("FetchPartition", partition=index, fetch_offset=offset, log_start_offset=-1, **per_partition)
            ],
        )
        for topic, index, offset in targets
    ]
    forgotten_topics = [
        types.new("ForgottenTopic", **_topic_field(version, topic), partitions=[index]) for topic, index in forgotten
    ]
    fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "rack_id": "",
        **options,
    }
    return types.message(**fields, topics=topics, forgotten_topics_data=forgotten_topics)


def _topic_field(version: int, topic: Any) -> dict[str, Any]:
    return {"topic_id": topic} if version >= 13 else {"topic": topic}


def cold_node(**options: Any) -> SimNode:
    """Return a node whose disk never has anything in the page cache."""
    node = SimNode(**options)
    node.fs = FaultyFileSystem(node.memory, [FaultRule(would_block=True)])
    return node
