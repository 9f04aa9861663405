"""The questions that checks of requests have (Kafka's AuthHelper)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType, host_address
from crabka.security.authorizer import Requester, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.security.authorizer import Authorizer
    from crabka.security.principal import Principal
    from crabka.serving.access.audit import AuditLog
    from crabka.serving.request import Request

# Requesters that are remembered, so that their addresses are not converted at each request.
REQUESTER_LIMIT: Final = 10_000


class Access:
    """Asks the authorizer about a request, and writes the audit log."""

    def __init__(self, authorizer: Authorizer, audit: AuditLog) -> None:
        self.authorizer = authorizer
        self._allows = authorizer.allows
        self._audit = audit
        self._logs_allowed = audit.logs_allowed
        self._requesters: dict[tuple[Principal, str], Requester] = {}

    def allows(
        self,
        request: Request,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denial: bool = True,
    ) -> bool:
        """Return whether the client may do this. Raises AuthorizerNotReadyError."""
        connection = request.connection
        requester = self._requesters.get((connection.principal, connection.peer_host))
        if requester is None:
            requester = self._remember(connection.principal, connection.peer_host)
        allowed = self._allows(requester, operation, resource_type, name)
        if self._logs_allowed() if allowed else logs_denial:
            explain = self.authorizer.explain
            self._audit.note(
                request,
                requester,
                operation,
                resource_type,
                name,
                explain=lambda: explain(requester, operation, resource_type, name),
            )
        return allowed

    def allows_cluster(self, request: Request, operation: Operation, *, logs_denial: bool = True) -> bool:
        """Return whether the client may do this with the cluster."""
        return self.allows(request, operation, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=logs_denial)

    def require_cluster(self, request: Request, operation: Operation) -> None:
        """Raise OperationError with CLUSTER_AUTHORIZATION_FAILED unless the client may do this with the cluster."""
        if not self.allows_cluster(request, operation):
            raise OperationError(ErrorCode.cluster_authorization_failed)

    def allows_any(self, request: Request, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client may do this with some resource of the type."""
        connection = request.connection
        requester = self._remember(connection.principal, connection.peer_host)
        allowed = self.authorizer.allows_any(requester, operation, resource_type)
        if not allowed or self._logs_allowed():
            verdict = Verdict(allowed, "AnyResourceOfType")
            self._audit.note(request, requester, operation, resource_type, "*", explain=lambda: verdict)
        return allowed

    def allowed(
        self,
        request: Request,
        operation: Operation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        logs_denial: bool = True,
    ) -> set[str]:
        """Return those of the names that the client may do this with; each is asked about once."""
        return {
            name for name in set(names) if self.allows(request, operation, resource_type, name, logs_denial=logs_denial)
        }

    def operations(self, request: Request, resource_type: ResourceType, name: str) -> int:
        """Return what the client may do with a resource, as a bit set of operation codes (KIP-430)."""
        connection = request.connection
        requester = self._remember(connection.principal, connection.peer_host)
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self._allows(requester, operation, resource_type, name)
        )

    def cluster_operations(self, request: Request) -> int:
        """Return what the client may do with the cluster; nothing is said to a client that may not describe it."""
        if not self.allows_cluster(request, Operation.DESCRIBE):
            return 0
        return self.operations(request, ResourceType.CLUSTER, CLUSTER_NAME)

    def _remember(self, principal: Principal, peer_host: str) -> Requester:
        requester = self._requesters.get((principal, peer_host))
        if requester is None:
            if len(self._requesters) >= REQUESTER_LIMIT:
                self._requesters.clear()
            requester = Requester(principal, host_address(peer_host))
            self._requesters[principal, peer_host] = requester
        return requester
