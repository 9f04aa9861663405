"""Guard of FindCoordinator: each key needs DESCRIBE on the group or transactional id that it names."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from crabka.broker.handlers.find_coordinator import (
    FIRST_VERSION_WITH_MANY_KEYS,
    FIRST_VERSION_WITH_SHARE,
    GROUP,
    SHARE,
    TRANSACTION,
)
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode, error_message
from crabka.security.acls import Operation, ResourceType
from crabka.serving.access.guard import Admission, Answered, Check, Row, with_body

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.access.access import Access
    from crabka.serving.request import Request

_PROTECTED: Final = {
    GROUP: (ResourceType.GROUP, ErrorCode.group_authorization_failed),
    TRANSACTION: (ResourceType.TRANSACTIONAL_ID, ErrorCode.transactional_id_authorization_failed),
}


def _guard(access: Access, _context: BrokerContext, request: Request) -> Admission | Answered:
    body = request.body
    key_type = getattr(body, "key_type", GROUP)
    if key_type == SHARE and request.version >= FIRST_VERSION_WITH_SHARE:
        access.require_cluster(request, Operation.CLUSTER_ACTION)
    if key_type not in _PROTECTED:
        return Admission(request)
    resource_type, error_code = _PROTECTED[key_type]
    refusal: dict[str, Any] = {
        "error_code": error_code,
        "error_message": error_message(error_code),
        "node_id": -1,
        "host": "",
        "port": -1,
    }
    types = response_types(request.api_key, request.version)
    if request.version < FIRST_VERSION_WITH_MANY_KEYS:
        if access.allows(request, Operation.DESCRIBE, resource_type, body.key):
            return Admission(request)
        return Answered(types.message(throttle_time=0, **refusal))
    wanted = body.coordinator_keys
    allowed = access.allowed(request, Operation.DESCRIBE, resource_type, wanted)
    refused = [types.new("Coordinator", key=key, **refusal) for key in wanted if key not in allowed]

    def finish(response: Any) -> Any:
        return dataclasses.replace(response, coordinators=(*response.coordinators, *refused))

    return Admission(with_body(request, coordinator_keys=tuple(key for key in wanted if key in allowed)), finish)


FIND_COORDINATOR = Row(
    (
        Check(Operation.DESCRIBE, "Group", "GROUP_AUTHORIZATION_FAILED", "keys of groups"),
        Check(Operation.DESCRIBE, "TransactionalId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "keys of transactions"),
        Check(Operation.CLUSTER_ACTION, "Cluster", "CLUSTER_AUTHORIZATION_FAILED", "keys of share groups"),
    ),
    _guard,
)
