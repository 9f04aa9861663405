"""Periodic duties of the active controller: fence silent brokers, balance leaders, elect unclean leaders.

They run from the start of the controller's term to its end.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.broker_changes import fence_broker
from crabka.controller.decisions.elect_leaders import balance_leaders, elect_unclean_leaders
from crabka.errors import InvariantError, OperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from crabka.controller.context import ControllerContext
    from crabka.controller.decisions.control_view import ControllerRules
    from crabka.controller.decisions.sessions import BrokerIncarnation
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.requests import Outcome

    Duty = Callable[[ControllerContext], Coroutine[Any, Any, None]]

logger = logging.getLogger(__name__)

# A timer that fires this late shows that the process was paused: heartbeats may still be unread.
LATE_MS = 1000
# The pause before a failed duty restarts.
RESTART_MS = 1000


def duties_of_term() -> list[Duty]:
    """Return the coroutines that run during a term."""
    return [expire_sessions, keep_balanced, elect_where_nobody_leads]


async def keep_up(context: ControllerContext, duty: Duty) -> None:
    """Run a duty until it is cancelled, and restart it after an unexpected failure."""
    while True:
        try:
            await duty(context)
        except InvariantError:
            raise
        except Exception:
            logger.exception("The duty %s failed and restarts in %d ms", duty.__name__, RESTART_MS)
        await asyncio.sleep(RESTART_MS / 1000)


async def fence_incarnation(context: ControllerContext, broker: BrokerIncarnation, reason: str) -> bool:
    """Fence a broker whose session expired, unless it registered again, and end its session.

    Return False if this controller is no longer active.
    """

    def decide(image: MetadataImage) -> Outcome[bool]:
        # Before anything is awaited: a heartbeat during the commit opens the session again.
        context.sessions.end(broker)
        context.watch.gone(broker)
        return fence_broker(image, context.rules, broker.broker_id, broker_epoch=broker.epoch)

    try:
        if await context.metadata_writer.submit(decide):
            logger.warning("Fenced broker %d of epoch %d: %s", broker.broker_id, broker.epoch, reason)
    except OperationError as error:
        logger.info("Broker %d is left to the next controller: %s", broker.broker_id, error)
        return False
    return True


async def expire_sessions(context: ControllerContext) -> None:
    """Fence each broker that was silent for broker.session.timeout.ms."""
    clock, sessions = context.runtime.clock, context.sessions
    timeout_ms = context.config.broker_session_timeout_ms
    while True:
        now_ms = clock.monotonic_ms()
        due_ms = sessions.next_expiry_ms()
        # A session that starts meanwhile ends later than this.
        wake_ms = now_ms + timeout_ms if due_ms is None else max(due_ms, now_ms)
        await asyncio.sleep((wake_ms - now_ms) / 1000)
        now_ms = clock.monotonic_ms()
        if now_ms - wake_ms > LATE_MS:
            logger.warning("This controller was paused for %d ms; broker sessions are extended", now_ms - wake_ms)
            await asyncio.sleep(context.config.broker_heartbeat_interval_ms / 1000)
            now_ms = clock.monotonic_ms()
        for broker in sessions.expired(now_ms):
            if not await fence_incarnation(context, broker, "no heartbeat within broker.session.timeout.ms"):
                # The session is still expired: without a pause this would retry at once.
                await asyncio.sleep(context.config.broker_heartbeat_interval_ms / 1000)
                break


async def keep_balanced(context: ControllerContext) -> None:
    """Elect preferred leaders every leader.imbalance.check.interval.seconds."""
    while True:
        await asyncio.sleep(context.config.leader_imbalance_check_interval_seconds)
        if context.config.auto_leader_rebalance_enable:
            await _in_turns(context, balance_leaders)


async def elect_where_nobody_leads(context: ControllerContext) -> None:
    """Hold unclean elections, where topics allow them, every unclean.leader.election.interval.ms."""
    while True:
        await asyncio.sleep(context.config.unclean_leader_election_interval_ms / 1000)
        await _in_turns(context, elect_unclean_leaders)


async def _in_turns(
    context: ControllerContext, elect: Callable[[MetadataImage, ControllerRules], Outcome[bool]]
) -> None:
    """Elect until nothing is left, in batches, so that requests are decided in between."""
    try:
        is_more_left = True
        while is_more_left:
            is_more_left = await context.metadata_writer.submit(lambda image: elect(image, context.rules))
    except OperationError as error:
        logger.info("Elections are left to the next controller: %s", error)
