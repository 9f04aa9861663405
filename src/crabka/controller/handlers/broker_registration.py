"""BrokerRegistration (62): a broker registers at its start and receives its epoch (KIP-631, KIP-858).

From version 3 on it sends the epoch of its last run if that ended cleanly (KIP-966).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.registration import NO_EPOCH, BrokerApplication, RegistrationTerms, admit_broker
from crabka.controller.decisions.sessions import BrokerIncarnation
from crabka.ids import ZERO_UUID
from crabka.metadata.cluster import endpoints_of, features_of
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.request import OWN_CONNECTION

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.metadata.image import MetadataImage
    from crabka.metadata.requests import Outcome
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Register the broker, fenced; its epoch is the offset of its registration."""
    application = _application(request.body)

    def decide(image: MetadataImage) -> Outcome[int]:
        # Nothing is awaited between reading the offset and appending the records.
        return admit_broker(image, application, _terms(context, request, image))

    epoch = await context.metadata_writer.submit(decide)
    types = response_types(request.api_key, request.version)
    return types.message(throttle_time=0, error_code=ErrorCode.none, broker_epoch=epoch)


def _application(body: Any) -> BrokerApplication:
    return BrokerApplication(
        broker_id=body.broker_id,
        cluster_id=body.cluster_id,
        incarnation_id=body.incarnation_id or ZERO_UUID,
        endpoints=endpoints_of(body.listeners),
        features=features_of(body.features),
        log_dirs=[each or ZERO_UUID for each in getattr(body, "log_dirs", ())],
        rack=body.rack,
        is_migrating_zk_broker=getattr(body, "is_migrating_zk_broker", False),
        previous_broker_epoch=getattr(body, "previous_broker_epoch", NO_EPOCH),
    )


def _terms(context: ControllerContext, request: Request, image: MetadataImage) -> RegistrationTerms:
    broker_id = request.body.broker_id
    existing = image.cluster.brokers.get(broker_id)
    now_ms = context.runtime.clock.monotonic_ms()
    # The last run of this node's own broker has ended: this process holds the locks of its log dirs.
    is_own = request.connection is OWN_CONNECTION
    return RegistrationTerms(
        cluster_id=context.cluster_id,
        next_offset=context.quorum.next_offset,
        has_live_session=existing is not None
        and not is_own
        and context.sessions.is_live(BrokerIncarnation(broker_id, existing.epoch), now_ms),
        kraft_version=context.quorum.kraft_version,
        rules=context.rules,
    )
