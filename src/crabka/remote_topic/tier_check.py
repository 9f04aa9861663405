"""Runs the checks of a tier while its cluster is working, for `crabka tier verify`, `fsck` and `crabka audit`.

The metadata is read before the tier and again after it; what brokers changed in between is no fault. Of the bounds of a
partition the local start is asked for before the metadata and the log start after the tier, so that data that moves is
never missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from crabka.clients.admin.admin import Admin
from crabka.clients.fetcher.offsets import EARLIEST, EARLIEST_LOCAL
from crabka.ids import TopicPartition
from crabka.remote.errors import RemoteStorageError
from crabka.remote.layout import parse_partition_directory
from crabka.remote.listing import TierListing
from crabka.remote.scrub import (
    ObjectFindings,
    PartitionBounds,
    Severity,
    TierFault,
    TierFaultKind,
    check_contents,
    check_objects,
    check_states,
    still_true,
    verify_partition,
    verify_segment,
)
from crabka.remote.scrub.objects import OrphanSegment
from crabka.remote_topic.tier_view import TierView, offsets_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crabka.remote.listing import TierObject
    from crabka.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
    from crabka.remote.storage_manager import RemoteStorageManager

Partitions = dict["TopicIdPartition", list["RemoteLogSegmentMetadata"]]


class CheckProgress(Protocol):
    """Receives the progress of a check. Methods may be called from any thread."""

    def metadata(self, done: int, total: int) -> None:
        """So many events were read."""
        ...

    def objects(self, listed: Iterable[TierObject]) -> Iterator[TierObject]:
        """Pass objects on."""
        ...

    def begin_contents(self, byte_count: int) -> None:
        """The segments are read from now on."""
        ...

    def contents(self, byte_count: int) -> None:
        """So many bytes more were read."""
        ...


class ContentsCheck(Protocol):
    """Reads segments and finds what is wrong in them; blocks."""

    def __call__(self, partitions: Partitions, on_bytes: Callable[[int], None]) -> list[TierFault]:
        """Return the faults, and report the bytes that were read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """How much is checked, and when something counts as forgotten."""

    grace_ms: int
    delete_orphans: bool = False


@dataclass(slots=True)
class CheckResult:
    """What was looked at and what was wrong."""

    partition_count: int = 0
    segment_count: int = 0
    byte_count: int = 0
    object_count: int | None = None
    faults: list[TierFault] = field(default_factory=list)
    deleted: list[OrphanSegment] = field(default_factory=list)
    not_deleted: str | None = None
    """Why orphans were left, though their deletion was asked for."""

    @property
    def exit_code(self) -> int:
        """0 clean, 1 faults, 2 not all could be read and the rest is clean."""
        kinds = {fault.kind for fault in self.faults if fault.severity > Severity.NOTE}
        if not kinds:
            return 0
        return 2 if kinds == {TierFaultKind.UNREADABLE} else 1


class TierCheck:
    """One run over a tier."""

    def __init__(
        self,
        view: TierView,
        storage: RemoteStorageManager,
        options: CheckOptions,
        contents: ContentsCheck | None = None,
    ) -> None:
        """Prepare; without `contents` no segment is read."""
        self._view = view
        self._storage = storage
        self._options = options
        self._contents = contents

    async def run(self, progress: CheckProgress) -> CheckResult:
        """Check all that the view is about. Raises what the brokers and the storage raise."""
        view, admin, threads = self._view, Admin(self._view.cluster), self._view.cluster.runtime.threads
        await view.read_topics()
        local_starts = await offsets_at(admin, view.live_partitions(), EARLIEST_LOCAL)
        await view.read_on(progress.metadata)
        partitions = view.finished()
        before = dict(view.history.segments)
        states = check_states(
            view.history,
            now_ms=self._now_ms(),
            grace_ms=self._options.grace_ms,
            topic_ids=view.topic_ids,
        )
        found, contents = await threads.submit(self._read_tier, partitions, progress)
        await view.read_on()
        log_starts = await offsets_at(admin, view.live_partitions(), EARLIEST)
        bounds = self._bounds(local_starts, log_starts)
        lineages = await threads.submit(self._check_lineages, partitions, bounds)
        faults = still_true(states + found.faults + contents + lineages, before, view.history.segments)
        result = CheckResult(
            partition_count=len(partitions),
            segment_count=sum(map(len, partitions.values())),
            byte_count=_size_bytes(partitions),
            object_count=found.object_count if isinstance(self._storage, TierListing) else None,
            faults=worst_first(view.topic_faults + faults),
        )
        if self._options.delete_orphans:
            await threads.submit(self._delete_orphans, found, result)
        return result

    def _read_tier(self, partitions: Partitions, progress: CheckProgress) -> tuple[ObjectFindings, list[TierFault]]:
        """List and read; on a thread, since storages block."""
        found = self._check_objects(partitions, progress)
        if self._contents is None:
            return found, []
        progress.begin_contents(_size_bytes(partitions))
        return found, self._contents(partitions, progress.contents)

    def _check_objects(self, partitions: Partitions, progress: CheckProgress) -> ObjectFindings:
        storage = self._storage
        if isinstance(storage, TierListing):
            objects = progress.objects(self._listed(storage))
            return check_objects(self._view.history, objects, now_ms=self._now_ms(), grace_ms=self._options.grace_ms)
        findings = ObjectFindings()
        for segments in partitions.values():
            for segment in segments:
                findings.faults += verify_segment(storage, segment)
        return findings

    def _listed(self, storage: TierListing) -> Iterator[TierObject]:
        """List the directories of the topics that are checked, or everything."""
        if not self._view.names:
            yield from storage.list_objects()
            return
        for name in self._view.names:
            for found in storage.list_objects(f"{name}-"):
                # A prefix also fits topics whose names continue after the dash.
                if _topic_of(found.partition_directory) == name:
                    yield found

    def _check_lineages(
        self, partitions: Partitions, bounds: dict[TopicIdPartition, PartitionBounds]
    ) -> list[TierFault]:
        return [
            fault
            for identity in {**partitions, **bounds}
            for fault in verify_partition(self._storage, identity, partitions.get(identity, []), bounds.get(identity))
        ]

    def _bounds(
        self, local_starts: dict[TopicPartition, int | None], log_starts: dict[TopicPartition, int | None]
    ) -> dict[TopicIdPartition, PartitionBounds]:
        live = self._view.live_partitions()
        return {
            live[partition]: PartitionBounds(log_start, local_start)
            for partition, log_start in log_starts.items()
            if log_start is not None and (local_start := local_starts.get(partition)) is not None and partition in live
        }

    def _delete_orphans(self, found: ObjectFindings, result: CheckResult) -> None:
        """Delete objects without metadata, and drop their faults."""
        if any(fault.kind in (TierFaultKind.CUT_METADATA, TierFaultKind.BAD_EVENT) for fault in result.faults):
            result.not_deleted = "parts of the metadata are lost, and with them who owns what"
            return
        history = self._view.history
        for orphan in found.orphans:
            if not history.knows_topic(orphan.partition.topic_id):
                result.not_deleted = "some are of topics that this cluster never had: another one may use the tier"
            elif orphan.segment_id not in history.segments:
                try:
                    self._storage.delete_log_segment_data(orphan.as_metadata())
                except RemoteStorageError as error:
                    result.not_deleted = str(error)
                    break
                result.deleted.append(orphan)
        gone = {orphan.name for orphan in result.deleted}
        result.faults = [fault for fault in result.faults if fault.object_name not in gone]

    def _now_ms(self) -> int:
        return self._view.cluster.runtime.clock.now_ms()


def check_on_threads(storage: RemoteStorageManager, thread_count: int) -> ContentsCheck:
    """Return a check that reads several segments at once in this process."""

    def check(partitions: Partitions, on_bytes: Callable[[int], None]) -> list[TierFault]:
        faults: list[TierFault] = []
        with ThreadPoolExecutor(thread_count, "crabka-fsck") as pool:
            for segments in partitions.values():
                faults += check_contents(storage, segments, on_bytes=on_bytes, each=pool.map)
        return faults

    return check


def worst_first(faults: Sequence[TierFault]) -> list[TierFault]:
    """Return faults in the order of what they cost."""
    return sorted(faults, key=lambda fault: -fault.severity)


def _size_bytes(partitions: Partitions) -> int:
    return sum(segment.segment_size_bytes for segments in partitions.values() for segment in segments)


def _topic_of(directory: str) -> str | None:
    try:
        return parse_partition_directory(directory).topic
    except ValueError:
        return None
