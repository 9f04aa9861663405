"""The periodic duties of a node: retention, flushing, checkpoints, deletions, cleaning, in-sync replicas.

Each duty runs on the loop at its own interval and hands the waiting for disks to the pool. A duty that fails is
logged and runs again at its next turn; a log dir that fails goes offline, the others go on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from crabka.errors import InvariantError, StorageError
from crabka.runtime.turns import in_turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabka.broker.context import BrokerContext

logger = logging.getLogger(__name__)

DELETION_INTERVAL_MS = 1000
DIR_CHECK_INTERVAL_MS = 1000

Duty = tuple[str, "int | Callable[[BrokerContext], int]", "Callable[[BrokerContext], Awaitable[None]]"]
"""Name, interval in ms (a function if it may change while the node runs), action."""


def duties_of(context: BrokerContext) -> list[Duty]:
    """Return name, interval and action of every duty."""
    config = context.config
    flush_ms = min(config.log_flush_scheduler_interval_ms, config.log_flush_offset_checkpoint_interval_ms)
    return [
        ("retention", config.log_retention_check_interval_ms, _apply_retention),
        ("flush", flush_ms, _flush),
        ("checkpoints", config.log_flush_offset_checkpoint_interval_ms, _write_checkpoints),
        ("deletions", DELETION_INTERVAL_MS, _delete),
        ("log dirs", DIR_CHECK_INTERVAL_MS, _check_dirs),
        ("cleaning", lambda context: max(context.config.log_cleaner_backoff_ms, 1), _clean),
        ("in-sync replicas", max(config.replica_lag_time_max_ms // 2, 1), _shrink_isr),
        ("offset expiry", config.offsets_retention_check_interval_ms, _expire_offsets),
        (
            "transaction timeouts",
            config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            _abort_timed_out_transactions,
        ),
        (
            "transactional id expiry",
            config.transaction_remove_expired_transaction_cleanup_interval_ms,
            _expire_transactional_ids,
        ),
    ]


async def repeat(context: BrokerContext, duty: Duty) -> None:
    """Run one duty until cancelled, first after one interval."""
    name, interval, run = duty
    while True:
        interval_ms = interval if isinstance(interval, int) else interval(context)
        await asyncio.sleep(interval_ms / 1000)
        try:
            await run(context)
        except StorageError as error:
            context.logs.on_dir_failure(error.log_dir, error)
        except InvariantError as error:
            context.on_broken_invariant(error)
            raise
        except Exception:
            logger.exception("The duty %r failed; it runs again in %d ms", name, interval_ms)


async def _apply_retention(context: BrokerContext) -> None:
    now_ms = context.runtime.clock.now_ms()
    await context.logs.retention.roll_due(now_ms)
    await context.logs.retention.run(now_ms)


async def _flush(context: BrokerContext) -> None:
    await context.logs.run_flush(context.runtime.clock.now_ms())


async def _write_checkpoints(context: BrokerContext) -> None:
    await context.logs.save_checkpoints()


async def _delete(context: BrokerContext) -> None:
    removal = context.logs.removal.delete_due(context.runtime.clock.now_ms())
    if removal is not None:
        await asyncio.wait([removal])


async def _check_dirs(context: BrokerContext) -> None:
    for path in context.logs.online_dirs:
        await context.runtime.threads.submit(context.logs.dirs[path].require_identity)


async def _clean(context: BrokerContext) -> None:
    await context.cleaner.run()


async def _shrink_isr(context: BrokerContext) -> None:
    async for partition in in_turns(list(context.partitions)):
        if partition.replication is not None:
            partition.followers.shrink_isr()


async def _expire_offsets(context: BrokerContext) -> None:
    await context.groups.expire_offsets()


async def _abort_timed_out_transactions(context: BrokerContext) -> None:
    await context.transactions.abort_timed_out()


async def _expire_transactional_ids(context: BrokerContext) -> None:
    await context.transactions.expire()
