"""Repairs a damaged range of a log in place, from the first source whose batches are those that were written there.

If no source has them, a batch with one wrong byte is corrected from its checksum (`log.healing.batch_correction`).

The log keeps its offsets, its end and its place in the ISR: nothing is cut, so nothing that was acknowledged is ever
missing from a replica that counts for it. docs/internals/healing.md says why that is safe for leaders and followers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from crabka.broker.healing.sources import SourceError
from crabka.log.healing.batch_correction import RangeFacts, correct_range
from crabka.log.healing.mending import MendError, MendRules, fit, whole_batches
from crabka.log.partition.decompression import decompressed_limit
from crabka.log.partition.healing import sync_files

if TYPE_CHECKING:
    from crabka.broker.healing.sources import PartitionSources, RepairSource
    from crabka.broker.partition.partition import Partition
    from crabka.log.healing.damage import DamagedRange
    from crabka.log.healing.segment_check import CheckTarget
    from crabka.ports import Runtime
    from crabka.records.header import BatchHeader

# A range that is larger is left as it is.
MAX_RANGE_BYTES: Final = 64 * 1024 * 1024


class MendResult(NamedTuple):
    """What became of one damaged range."""

    # Empty if it stays damaged.
    source: str
    # Why sources were of no use.
    reasons: list[str]
    # Whether a source has sound batches that may not be those that were written here.
    has_misfit: bool = False


class RangeMender:
    """Fills damaged ranges. All methods run on the loop."""

    def __init__(self, runtime: Runtime, sources: PartitionSources) -> None:
        self._runtime = runtime
        self._sources = sources

    async def mend(self, partition: Partition, damaged: DamagedRange) -> MendResult:
        """Repair one range, durably. Raises StorageError and OSError when the disk fails."""
        reasons: list[str] = []
        may_come_back = has_misfit = False
        target = partition.log.healing.begin_check(damaged.base_offset)
        if target is None or damaged not in partition.log.healing.damage:
            return MendResult("", ["the segment is gone"])
        if damaged.end_position - damaged.position > MAX_RANGE_BYTES:
            size = damaged.end_position - damaged.position
            return MendResult("", [f"{size} bytes are more than are repaired at once"])
        for source in self._sources.of(partition):
            try:
                await self._mend_from(source, partition, target, damaged)
            except (SourceError, MendError) as error:
                reasons.append(f"{source.name}: {error}")
                may_come_back = may_come_back or (isinstance(error, SourceError) and error.may_come_back)
                has_misfit = has_misfit or (isinstance(error, MendError) and error.is_misfit)
            else:
                return MendResult(source.name, reasons, has_misfit)
        # A replica that is in sync and away for now has the batches for certain, and one that has others of a compacted
        # log lets this one begin anew.
        if not may_come_back and not has_misfit:
            try:
                return MendResult(await self._correct(partition, target, damaged), reasons)
            except MendError as error:
                reasons.append(f"what is left of them: {error}")
        return MendResult("", reasons or ["there is no other replica"], has_misfit)

    async def _correct(self, partition: Partition, target: CheckTarget, damaged: DamagedRange) -> str:
        """Put a range right from what is left of it; return what was changed."""
        log, threads = partition.log, self._runtime.threads
        limit = decompressed_limit(log.config)
        facts = RangeFacts(damaged.offset, damaged.end_offset, log.leader_epochs.lineage.epoch_at, limit)
        old = await threads.submit(_read_range, target, damaged)
        correction = await threads.submit(correct_range, old, facts)
        if correction is None:
            raise MendError("no single change of a byte makes the checksum fit")
        await self._write(partition, target, damaged, correction.data)
        at = ", ".join(str(each._replace(position=damaged.position + each.position)) for each in correction.changes)
        return f"their own checksum, as no other copy has them ({at})"

    async def _mend_from(
        self, source: RepairSource, partition: Partition, target: CheckTarget, damaged: DamagedRange
    ) -> None:
        log, threads = partition.log, self._runtime.threads
        batches = await self._gather(source, partition, damaged)
        old = await threads.submit(_read_range, target, damaged)
        epochs = log.leader_epochs
        rules = MendRules(epochs.lineage.epoch_at, target.is_compacted)
        data = await threads.submit(fit, damaged, old, batches, rules)
        await self._write(partition, target, damaged, data)

    async def _write(self, partition: Partition, target: CheckTarget, damaged: DamagedRange, data: bytes) -> None:
        if not partition.log.healing.patch(target, damaged, data):
            raise MendError("the log has changed meanwhile")
        await self._runtime.threads.submit(sync_files, target.fs, [target.segment.log_path])

    async def _gather(
        self, source: RepairSource, partition: Partition, damaged: DamagedRange
    ) -> list[tuple[BatchHeader, memoryview]]:
        """Fetch all batches of a range."""
        found: list[tuple[BatchHeader, memoryview]] = []
        offset, size = damaged.offset, 0
        while offset < damaged.end_offset and size <= damaged.end_position - damaged.position:
            fetched = await source.fetch(partition, offset, damaged.end_offset)
            batches = await self._runtime.threads.submit(whole_batches, damaged._replace(offset=offset), fetched)
            if not batches:
                break
            found += batches
            size += sum(len(batch) for _, batch in batches)
            offset = batches[-1][0].next_offset
        return found


def _read_range(target: CheckTarget, damaged: DamagedRange) -> bytes:
    """Return what lies in the range now. For a thread."""
    try:
        file = target.fs.open(target.segment.log_path, read_only=True)
    except FileNotFoundError as error:
        raise MendError("the segment is gone") from error
    try:
        return file.pread(damaged.end_position - damaged.position, damaged.position)
    finally:
        file.close()
