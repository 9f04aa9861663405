"""The aborted transactions that a read_committed consumer of remote batches must know.

An entry lies in the segment of the abort marker, which may come long after the records: the segments with transaction
indexes are walked, remote ones first and then the local ones, until an entry says that no later one can matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.formats.transaction_index import overlapping

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from crabka.broker.tiering.read.remote_log import RemoteLog
    from crabka.formats.transaction_index import AbortedTransaction
    from crabka.log.partition.partition_log import PartitionLog
    from crabka.remote.segments import RemoteLogSegmentMetadata


async def aborted_transactions(
    remote: RemoteLog,
    local: PartitionLog,
    offsets: tuple[int, int],
    read: Callable[[RemoteLogSegmentMetadata], Awaitable[Sequence[AbortedTransaction]]],
) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of the transactions that touch [start, upper), each once.

    Raises what `read` raises: to leave one out would show records that were never committed.
    """
    start_offset, upper_offset = offsets
    found: dict[AbortedTransaction, None] = {}
    offset = start_offset
    # What the log still has itself is not fetched.
    while offset < local.local_log_start_offset:
        segment = remote.next_with_txn_index(offset)
        if segment is None or segment.start_offset >= local.local_log_start_offset:
            break
        entries, is_complete = overlapping(await read(segment), start_offset, upper_offset)
        found.update(dict.fromkeys(entries))
        if is_complete:
            return [each[:2] for each in found]
        offset = segment.end_offset + 1
    found.update(dict.fromkeys(local.reads.aborted_transactions(start_offset, upper_offset)))
    return [each[:2] for each in found]
