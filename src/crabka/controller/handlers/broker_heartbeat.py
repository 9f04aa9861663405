"""BrokerHeartbeat (63): a broker is alive and asks to be unfenced, fenced or stopped (KIP-631).

Lost log dirs come with version 1 (KIP-858), cordoned ones with version 2 (KIP-1066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.heartbeats import BrokerHeartbeat, decide_heartbeat
from crabka.controller.decisions.sessions import UNKNOWN_OFFSET, BrokerIncarnation
from crabka.errors import OperationError
from crabka.ids import ZERO_UUID
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.controller.decisions.heartbeats import BrokerHeartbeatReply
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.requests import Outcome
    from crabka.net.dispatch import ConnectionInfo
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Extend the session at once, then decide on changes.

    Raises OperationError: STALE_BROKER_EPOCH, and INVALID_REQUEST for an offset that is not in the metadata log.
    """
    heartbeat = _heartbeat(request.body)
    _note_arrival(context, heartbeat, request.connection)
    last_offset = -1

    def decide(image: MetadataImage) -> Outcome[BrokerHeartbeatReply]:
        nonlocal last_offset
        outcome = decide_heartbeat(image, context.rules, context.sessions, heartbeat)
        _check_offset(heartbeat.metadata_offset, context.quorum.next_offset)
        last_offset = context.quorum.next_offset + len(outcome.records) - 1
        return outcome

    reply = await context.metadata_writer.submit(decide)
    context.sessions.note(heartbeat, reply, end_offset=last_offset)
    types = response_types(request.api_key, request.version)
    return types.message(
        throttle_time=0,
        error_code=ErrorCode.none,
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )


def _check_offset(metadata_offset: int, end_offset: int) -> None:
    """Refuse an offset that no broker can have read: decisions on other brokers depend on it.

    A broker applies committed records only, and the active controller has all of them. (Kafka accepts any number.)
    """
    if not UNKNOWN_OFFSET <= metadata_offset < end_offset:
        raise OperationError(
            ErrorCode.invalid_request, f"The metadata log ends at {end_offset}, offset {metadata_offset} is not in it"
        )


def _heartbeat(body: Any) -> BrokerHeartbeat:
    cordoned = getattr(body, "cordoned_log_dirs", None)
    return BrokerHeartbeat(
        broker_id=body.broker_id,
        broker_epoch=body.broker_epoch,
        metadata_offset=body.current_metadata_offset,
        want_fence=body.want_fence,
        want_shut_down=body.want_shut_down,
        offline_log_dirs=[each or ZERO_UUID for each in getattr(body, "offline_log_dirs", ())],
        cordoned_log_dirs=None if cordoned is None else [each or ZERO_UUID for each in cordoned],
    )


def _note_arrival(context: ControllerContext, heartbeat: BrokerHeartbeat, connection: ConnectionInfo) -> None:
    """A decision may wait for a commit; the session must not expire meanwhile."""
    broker = context.metadata_writer.image.cluster.brokers.get(heartbeat.broker_id)
    if context.quorum.is_active and broker is not None and broker.epoch == heartbeat.broker_epoch:
        incarnation = BrokerIncarnation(heartbeat.broker_id, heartbeat.broker_epoch)
        context.sessions.touch(incarnation, context.runtime.clock.monotonic_ms())
        context.watch.note_heartbeat(incarnation, connection)
