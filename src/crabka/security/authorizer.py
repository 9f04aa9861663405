"""The port of authorizers: who may do what with which resource.

A node has one if `authorizer.class.name` names one. ACLs are kept in the metadata of the cluster, whichever authorizer
there is: it is given all of them, and decides what they mean.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Acl, Operation, ResourceType
from crabka.security.principal import Principal


class Requester(NamedTuple):
    """A principal, and the address that its requests come from, as Java writes addresses."""

    principal: Principal
    host: str


class Verdict(NamedTuple):
    """A decision with its reason, for the audit log and for people."""

    allowed: bool
    # A name such as `MatchingAcl`, `SuperUser` or `DefaultDeny`.
    rule: str
    # The ACL that decided.
    acl: Acl | None = None

    def __str__(self) -> str:
        return self.rule if self.acl is None else f"{self.rule}({self.acl})"


class AuthorizerNotReadyError(OperationError):
    """The ACLs are not known yet, so only super users may do anything."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.unknown_server_error, "The authorizer has not loaded the ACLs of the cluster yet.")


class Authorizer(Protocol):
    """Decides what requesters may do. All methods are called on the loop of the node and must return at once.

    A class that `authorizer.class.name` names as `package.module:Class` is called with the settings of the node's file,
    a mapping of texts.
    """

    def allows(self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether an operation on the resource of that name is allowed. Raises AuthorizerNotReadyError."""
        ...

    def allows_any(self, requester: Requester, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether an operation is allowed on some resource of the type. Raises AuthorizerNotReadyError."""
        ...

    def explain(self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str) -> Verdict:
        """Return the decision of `allows` with its reason. Raises AuthorizerNotReadyError."""
        ...

    def load(self, acls: Mapping[UUID, Acl]) -> None:
        """Replace all ACLs. The authorizer is ready after this."""
        ...

    def change(self, added: Mapping[UUID, Acl], removed: Collection[UUID]) -> None:
        """Remove and add some ACLs; an added one may replace the one of the same id."""
        ...
