"""A quorum of one: this node alone votes, leads and keeps the metadata log (KIP-595 with a single voter).

Every append is one batch. A writer task takes all that wait, writes them with one fsync in a thread, and only then
applies them to the image, tells subscribers and answers the callers: nobody sees what a power cut could take back.
Records are replayed before they are written, so that one that contradicts the metadata never reaches the log; the
image shows them afterwards. Snapshots are written in a thread beside it. After a failure the quorum is dead: it cannot
know what the disk holds, so every further append fails and the owner is told once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.errors import CrabkaError, InvariantError, StorageError
from crabka.metadata.bootstrap import activation_records
from crabka.metadata.delta import MetadataDelta
from crabka.metadata.image import MetadataImage
from crabka.metadata.records import NoOpRecord, encode_record, record_version
from crabka.quorum.leadership import Leadership, leader_change_batch, take_leadership
from crabka.quorum.metadata_log import StoredBatch
from crabka.quorum.settings import MetadataLogSettings
from crabka.quorum.snapshot_keeper import SnapshotKeeper
from crabka.quorum.storage import MetadataStorage
from crabka.records.builder import build_batch
from crabka.records.header import parse_header
from crabka.records.record import Record

if TYPE_CHECKING:
    from crabka.ports import Runtime
    from crabka.quorum.voters import VoterNode

LOGGER = logging.getLogger(__name__)
Subscriber = Callable[[MetadataDelta, MetadataImage], None]


class _Append(NamedTuple):
    """A batch that waits for its turn on the disk."""

    batch: bytes
    last_offset: int
    done: asyncio.Future[int]


class StandaloneQuorum:
    """The metadata of a single node: `image` now, `append` to change it, `subscribe` to follow it."""

    def __init__(self, runtime: Runtime, storage: MetadataStorage, leadership: Leadership) -> None:
        self._runtime = runtime
        self._storage = storage
        self._leadership = leadership
        self._settings = storage.settings
        self._loaded = storage.loaded
        self._log_in_use = asyncio.Lock()
        self._snapshots = SnapshotKeeper(runtime, storage, self._log_in_use)
        self._next_offset = storage.log.end_offset
        self._waiting: list[_Append] = []
        self._wake = asyncio.Event()
        self._subscribers: list[Subscriber] = []
        self._failure: CrabkaError | None = None
        self._closing = False
        self._writer: asyncio.Task[None] | None = None
        # Called once when the metadata cannot be changed any more: the node must stop.
        self.on_failure: Callable[[CrabkaError], None] | None = None

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        metadata_dir: str,
        node_id: int,
        *,
        settings: MetadataLogSettings | None = None,
        min_insync_replicas: int = 1,
    ) -> StandaloneQuorum:
        """Load the metadata below a formatted log dir, become leader of the next epoch and start to serve.

        Raises ConfigError for a directory that is not formatted or belongs to other voters, CorruptDataError and
        MetadataVersionError for content that cannot be read, StorageError when the disk fails.
        """
        settings = settings or MetadataLogSettings()
        now_ms = runtime.clock.now_ms()
        try:
            storage = await runtime.threads.submit(
                MetadataStorage.open, runtime.fs, metadata_dir, settings, now_ms=now_ms
            )
            leadership = await runtime.threads.submit(take_leadership, storage, node_id)
        except OSError as error:
            raise StorageError(metadata_dir, f"cannot open the metadata log: {error}") from error
        quorum = cls(runtime, storage, leadership)
        await quorum._activate(min_insync_replicas)
        quorum._writer = asyncio.create_task(quorum._write_forever(), name="metadata-log-writer")
        return quorum

    @property
    def image(self) -> MetadataImage:
        """The newest image; it holds only what is durable."""
        return self._loaded.replay.image

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this node leads."""
        return self._leadership.epoch

    @property
    def voters(self) -> tuple[VoterNode, ...]:
        """The voter set; empty in a static quorum, whose voters are in the config."""
        return self._loaded.voters

    @property
    def kraft_version(self) -> int:
        """The level of the feature kraft.version."""
        return self._loaded.kraft_version

    @property
    def next_offset(self) -> int:
        """The offset of the next appended record: valid until the caller waits (a registration holds its own)."""
        return self._next_offset

    @property
    def high_watermark(self) -> int:
        """Everything below is durable and applied."""
        return self._storage.log.end_offset

    @property
    def is_active(self) -> bool:
        """Whether appends are taken: this node always leads."""
        return self._failure is None and not self._closing

    @property
    def failure(self) -> CrabkaError | None:
        """Why the quorum died, if it did."""
        return self._failure

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback(delta, image)` after every change, in order, on the loop; return how to unsubscribe."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def on_leadership(self, active: Callable[[int], None], _resigned: Callable[[], None]) -> None:
        """Call `active(epoch)`: this node leads from the start and to the end."""
        active(self.leader_epoch)

    def append(self, records: Sequence[Any]) -> asyncio.Future[int]:
        """Append one atomic batch; the future gives its last offset once it is durable and in `image`.

        Offsets are given at the call, in the order of calls. The future raises StorageError if the disk fails,
        InvariantError if the records contradict the metadata; the quorum is dead then.
        """
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self._failure is not None or self._closing:
            done.set_exception(self._failure or StorageError(self._storage.directory, "the metadata log is closed"))
            return done
        batch = self._build(records)
        last_offset = self._next_offset + len(records) - 1
        self._next_offset = last_offset + 1
        self._waiting.append(_Append(batch, last_offset, done))
        self._wake.set()
        return done

    async def snapshot(self) -> None:
        """Write a snapshot of the current image now, if it holds anything new."""
        await self._snapshots.write_now()

    async def close(self) -> None:
        """Write what waits, close the files; the quorum takes no more appends."""
        self._closing = True
        self._wake.set()
        if self._writer is not None:
            await self._writer
        await self._snapshots.close()
        if self._failure is None:
            await self._runtime.threads.submit(self._storage.close)

    def _build(self, records: Sequence[Any]) -> bytes:
        if not records:
            raise ValueError("an append needs at least one record")
        level = self.image.features.metadata_version
        now_ms = self._runtime.clock.now_ms()
        base = self._next_offset
        values = [encode_record(record, record_version(record, level)) for record in records]
        return build_batch(
            [Record(base + index, now_ms, None, value) for index, value in enumerate(values)],
            base_offset=base,
            leader_epoch=self._leadership.epoch,
        )

    async def _activate(self, min_insync_replicas: int) -> None:
        """Write the leader change and what a new or interrupted log needs before anything else."""
        first = leader_change_batch(
            self._leadership, self._loaded, base_offset=self._next_offset, now_ms=self._runtime.clock.now_ms()
        )
        await self._write([first])
        self._next_offset = self._storage.log.end_offset
        log_is_empty = self._loaded.replay.image.is_empty
        records = activation_records(
            self._storage.read_bootstrap() if log_is_empty else [],
            log_is_empty=log_is_empty,
            in_transaction=self._loaded.replay.in_transaction,
            min_insync_replicas=min_insync_replicas,
        )
        if records:
            await self._write([self._build(records)])
            self._next_offset = self._storage.log.end_offset

    async def _write_forever(self) -> None:
        while not (self._closing and not self._waiting):
            if not self._waiting:
                await self._wait_for_work()
                continue
            taken, self._waiting = self._waiting, []
            try:
                await self._write([item.batch for item in taken])
            except CrabkaError as error:
                self._fail(error, taken)
                return
            except Exception as error:
                # A subscriber broke: the node's parts no longer agree on the metadata.
                LOGGER.exception("A subscriber of the metadata failed")
                self._fail(InvariantError(f"a subscriber of the metadata failed: {error!r}"), taken)
                return
            for item in taken:
                if not item.done.done():
                    item.done.set_result(item.last_offset)
            self._snapshots.maybe_start()

    async def _wait_for_work(self) -> None:
        """Wait for an append; after the idle interval append a record that says nothing (KIP-835)."""
        self._wake.clear()
        idle_ms = self._settings.max_idle_interval_ms
        try:
            async with asyncio.timeout(idle_ms / 1000 if idle_ms > 0 else None):
                await self._wake.wait()
        except TimeoutError:
            self.append([NoOpRecord()]).add_done_callback(_forget_outcome)

    async def _write(self, batches: list[bytes]) -> None:
        """Replay batches, make them durable, then publish the image and tell the subscribers."""
        try:
            for batch in batches:
                self._loaded.replay_batch(StoredBatch(parse_header(batch), batch))
        except CrabkaError as error:
            raise InvariantError(f"an append contradicts the metadata: {error}") from error
        try:
            async with self._log_in_use:
                now_ms = self._runtime.clock.now_ms()
                await self._runtime.threads.submit(self._storage.log.append, batches, now_ms)
        except OSError as error:
            raise StorageError(self._storage.directory, f"cannot write the metadata log: {error}") from error
        published = self._loaded.replay.publish()
        if published is not None:
            for subscriber in list(self._subscribers):
                subscriber(published.delta, published.image)

    def _fail(self, error: CrabkaError, taken: list[_Append]) -> None:
        LOGGER.critical("The metadata cannot be changed any more: %s", error)
        self._failure = error
        for item in [*taken, *self._waiting]:
            if not item.done.done():
                item.done.set_exception(error)
        self._waiting = []
        if self.on_failure is not None:
            self.on_failure(error)


def _forget_outcome(done: asyncio.Future[int]) -> None:
    """Nobody waits for an idle record; a failure is told by other means."""
    if not done.cancelled():
        done.exception()
