"""The node's interface to its replica of the metadata quorum: `image`, `subscribe`, `append`, and answers to peers.

Only the active controller takes appends; all nodes follow the image. A lone node is a quorum of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from crabka.errors import ConfigError, CrabkaError, OperationError, StorageError
from crabka.ids import ZERO_UUID
from crabka.kraft.core import KraftCore
from crabka.kraft.messages import DescribeRequest, DescribeResponse, Request, Response
from crabka.kraft.settings import LocalReplica
from crabka.kraft.voters import ReplicaKey, VoterNode
from crabka.metadata.image import MetadataImage
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.quorum.healing.lost_entries import LossCheck
from crabka.quorum.healing.scrubber import MetadataScrubStats
from crabka.quorum.log.metadata_log import DIRECTORY_NAME
from crabka.quorum.raft.answers import WireAnswer
from crabka.quorum.raft.applier import Subscriber
from crabka.quorum.raft.driver import RaftDriver, RaftReplicaFiles
from crabka.quorum.raft.log import RaftLog
from crabka.quorum.raft.messages import decode_request
from crabka.quorum.raft.options import QuorumOptions
from crabka.quorum.raft.state_file import ElectionFile
from crabka.quorum.raft.watch import LeaderListener, QuorumLeader
from crabka.quorum.storage import MetadataStorage, read_meta_properties

if TYPE_CHECKING:
    from crabka.log.healing.scrub_settings import ScrubSettings
    from crabka.ports import Runtime


class _RuntimeRng:
    def __init__(self, runtime: Runtime) -> None:
        self._rng = runtime.rng

    def below(self, bound: int) -> int:
        return self._rng.randrange(bound)


class RaftQuorum:
    """The metadata of a node in a quorum: `image` now, `append` to change it, `subscribe` to follow it."""

    def __init__(self, driver: RaftDriver, options: QuorumOptions) -> None:
        self._driver = driver
        self._options = options

    @classmethod
    async def open(
        cls, runtime: Runtime, metadata_dir: str, node_id: int, options: QuorumOptions | None = None
    ) -> RaftQuorum:
        """Load the metadata below a formatted log dir and take part in its quorum.

        Raises ConfigError for a directory that is not formatted or is another node's, CorruptDataError and
        MetadataVersionError for content that cannot be read, StorageError when the disk fails.
        """
        options = options or QuorumOptions()
        opening = runtime.threads.submit(_open, runtime, metadata_dir, node_id, options)
        try:
            files = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The thread continues; the node's stop waits for it with `Threads.wait_submitted`.
            opening.add_done_callback(_abandon)
            raise
        except OSError as error:
            raise StorageError(metadata_dir, f"cannot open the metadata log: {error}") from error
        driver = RaftDriver(runtime, files, options)
        driver.start()
        return cls(driver, options)

    # -- interface for the node --------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The newest image; it holds only what is committed."""
        return self._driver.applier.image

    @property
    def core(self) -> KraftCore:
        """The core, for inspection."""
        return self._driver.core

    @property
    def leader_epoch(self) -> int:
        """The newest epoch that this replica knows."""
        return self._driver.core.epoch

    @property
    def leader(self) -> QuorumLeader:
        """The leader that this replica knows, and its endpoint."""
        return self._driver.watch.leader

    @property
    def voters(self) -> tuple[VoterNode, ...]:
        """The voter set in force."""
        return self._driver.core.voters.nodes

    @property
    def kraft_version(self) -> int:
        """The level of the feature kraft.version."""
        return self._driver.core.history.kraft_version

    @property
    def next_offset(self) -> int:
        """The offset of the next record that this leader appends: valid until the caller waits."""
        return self._driver.leading.next_offset

    @property
    def high_watermark(self) -> int:
        """Everything below is committed and applied."""
        return self._driver.applier.applied_to

    @property
    def settled_to(self) -> int:
        """Everything below is applied, and subscribers have finished their work for it."""
        return self._driver.applier.settled_to

    @property
    def is_active(self) -> bool:
        """Whether this replica leads, has applied all before its epoch, and takes appends."""
        return self._driver.leading.takes_appends and not self._driver.closing and self._driver.failure is None

    @property
    def log_cuts(self) -> tuple[int, int]:
        """How many times, and how many bytes, opening cut off the log."""
        return self._driver.log_cuts

    @property
    def election_file_repairs(self) -> int:
        """How many times `quorum-state` or its copy was damaged and rewritten."""
        return self._driver.election_file.repairs

    @property
    def set_aside_count(self) -> int:
        """How many damaged snapshots the start set aside."""
        return self._driver.set_aside_count

    @property
    def scrub_stats(self) -> MetadataScrubStats:
        """Damage that the checks of the files found and healed."""
        return self._driver.scrubber.stats

    def follow_scrub_settings(self, settings: Callable[[], ScrubSettings]) -> None:
        """Use dynamic settings for the checks of the files."""
        self._driver.scrubber.settings = settings

    @property
    def failure(self) -> CrabkaError | None:
        """The error that the quorum failed with, if it did."""
        return self._driver.failure

    @property
    def on_failure(self) -> Callable[[CrabkaError], None] | None:
        """Called once when the replica fails: the node must stop."""
        return self._driver.on_failure

    @on_failure.setter
    def on_failure(self, callback: Callable[[CrabkaError], None] | None) -> None:
        self._driver.on_failure = callback

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback(delta, image)` after every change, in order, on the loop; return how to unsubscribe."""
        return self._driver.applier.subscribe(callback)

    def on_leadership(self, active: Callable[[int], None], resigned: Callable[[], None]) -> None:
        """Call `active(epoch)` when this replica begins to take appends, `resigned()` when it no longer does."""
        self._driver.leading.listeners.append((active, resigned))
        if self._driver.leading.active_epoch is not None:
            active(self._driver.leading.active_epoch)

    def on_leader_change(self, callback: LeaderListener) -> Callable[[], None]:
        """Call `callback(leader)` now and after every change of `leader`; return how to unsubscribe."""
        return self._driver.watch.subscribe(callback)

    async def wait_caught_up(self) -> None:
        """Return once `image` holds everything that was committed when this replica first received a high watermark.

        Until then the image may be that of an old snapshot. A leader has caught up when it takes appends. Raises the
        error that the quorum failed with.
        """
        if self._driver.is_over and not self._driver.watch.caught_up:
            raise self._driver.failure or _closed()
        await self._driver.watch.when_caught_up()

    async def wait_active(self) -> None:
        """Return once this replica takes appends. Raises the error that the quorum failed with."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._driver.leading.waiting_for_active.append(waiter)
        self._driver.leading.settle_active()
        if self._driver.is_over and not waiter.done():
            waiter.set_exception(self._driver.failure or _closed())
        await waiter

    def append(self, records: Sequence[Any], timeout_ms: int | None = None) -> asyncio.Future[int]:
        """Append one atomic batch; the future returns its last offset once it is committed and in `image`.

        Offsets are assigned at the call, in the order of calls. The future raises OperationError NOT_CONTROLLER if this
        replica does not lead or stops to lead, REQUEST_TIMED_OUT if a time-out is given and passes; in both cases the
        records may still be committed. InvariantError and StorageError mean that the quorum has failed.
        """
        if self._driver.failure is not None or self._driver.closing:
            done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            done.set_exception(self._driver.failure or _closed())
            return done
        done = self._driver.leading.append(records, timeout_ms)
        self._driver.wake()
        return done

    def handle(self, api_key: ApiKey, version: int, body: Any, *, listener: str = "") -> Awaitable[Any]:
        """Answer a request of one of the quorum's APIs (`raft_messages.API_KEYS`, save ApiVersions).

        The awaitable returns the body of the response. A fetch may wait for records; cancelling it drops the request.
        """
        answer = WireAnswer(api_key, version, listener)
        try:
            request = decode_request(api_key, body, timeout_ms=self._options.kraft.request_timeout_ms)
        except OperationError as error:
            answer.refuse(error.error_code, error.message)
            return answer.done
        if self._driver.is_over:
            answer.refuse(ErrorCode.broker_not_available)
            return answer.done
        self._driver.ask(answer, answer.done, request)
        return answer.done

    async def ask(self, request: Request) -> Any:
        """Send a request to this replica itself: AddVoterRequest, RemoveVoterRequest, UpgradeRequest, ..."""
        if self._driver.is_over:
            raise self._driver.failure or _closed()
        done: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._driver.ask(done, done, request)
        return await done

    async def describe(self) -> DescribeResponse:
        """Return the state of the quorum if this replica leads it, NOT_LEADER_OR_FOLLOWER otherwise."""
        response: DescribeResponse = await self.ask(DescribeRequest())
        return response

    async def snapshot(self) -> None:
        """Write a snapshot of the current image now, if it holds anything new."""
        await self._driver.snapshots.write_now()

    async def verify_election_file(self) -> str:
        """Rewrite `quorum-state` if it is damaged; return its fault, or "". Raises OSError."""
        return await self._driver.verify_election_file()

    async def close(self) -> None:
        """Hand leadership over, close the files; the quorum takes no more appends."""
        await self._driver.stop(_closed())


def _abandon(opening: asyncio.Future[RaftReplicaFiles]) -> None:
    """Close the files of a cancelled opening at once: their lock is released next."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().storage.close()


def _closed() -> OperationError:
    return OperationError(ErrorCode.not_controller, "the metadata quorum is closed")


def _open(runtime: Runtime, metadata_dir: str, node_id: int, options: QuorumOptions) -> RaftReplicaFiles:
    """Open the files and build a core from them. Blocks."""
    properties = read_meta_properties(runtime.fs, metadata_dir)
    if properties.node_id != node_id:
        # Before the log is opened, which may change it.
        raise ConfigError(f"{metadata_dir} belongs to node {properties.node_id}, not to {node_id}")
    key = ReplicaKey(node_id, properties.directory_id or ZERO_UUID)
    own = {(endpoint.host, endpoint.port) for endpoint in options.endpoints}
    knows_others = any((endpoint.host, endpoint.port) not in own for endpoint in options.bootstrap)
    accept = LossCheck(f"{metadata_dir}/{DIRECTORY_NAME}", key, options.voters, knows_others=knows_others)
    # Read before the log is opened, which may change it.
    election_file = ElectionFile(runtime.fs, f"{metadata_dir}/{DIRECTORY_NAME}")
    election = election_file.read()
    now_ms = runtime.clock.now_ms()
    storage = MetadataStorage.open(runtime.fs, metadata_dir, options.log, accept=accept, now_ms=now_ms)
    log = RaftLog(storage)
    history = log.history(options.voters)
    known = history.voters.get(node_id)
    endpoints = options.endpoints or (known.endpoints if known is not None else ())
    local = LocalReplica(
        cluster_id=properties.cluster_id,
        # Only directories of a static quorum that an old release formatted have no id.
        node=VoterNode(node_id, key.directory_id, endpoints),
        bootstrap=options.bootstrap,
        auto_join=options.auto_join,
    )
    core = KraftCore(
        local,
        options.kraft,
        log,
        history=history,
        rng=_RuntimeRng(runtime),
        election=election,
        durable_end=log.durable_end,
        now_ms=runtime.clock.monotonic_ms(),
    )
    return RaftReplicaFiles(storage, log, core, election_file)
