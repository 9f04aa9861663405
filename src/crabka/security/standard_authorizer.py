"""The authorizer whose decisions are those of Kafka's StandardAuthorizer.

A DENY wins over every ALLOW. ALLOW of reading, writing, deleting or altering includes DESCRIBE, and that of
ALTER_CONFIGS includes DESCRIBE_CONFIGS. `allow.everyone.if.no.acl.found` is about resources that no ACL names at all,
of whatever principal. Super users may do everything, also before the ACLs are known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from crabka.errors import ConfigError
from crabka.security.acl_index import AclIndex
from crabka.security.acls import WILDCARD, Acl, Operation, PatternType, ResourceType
from crabka.security.authorizer import AuthorizerNotReadyError, Requester, Verdict
from crabka.security.principal import parse_principal

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
# Decisions that are remembered; all are dropped when there are more.
CACHE_LIMIT: Final = 50_000

_SUPER_USER: Final = Verdict(allowed=True, rule="SuperUser")
_DEFAULT_ALLOW: Final = Verdict(allowed=True, rule="DefaultAllow")
_DEFAULT_DENY: Final = Verdict(allowed=False, rule="DefaultDeny")
# A name that stands for all that no ACL names, in questions about a type of resources.
_ORDINARY_NAME: Final = "hardcode"

_Question = tuple[Requester, Operation, ResourceType, str | None]


def parse_super_users(text: str) -> frozenset[str]:
    """Return the principals of a setting such as `User:admin;User:CN=node 1,O=Example`. Raises ConfigError."""
    users = frozenset(part.strip() for part in text.split(";")) - {""}
    for user in users:
        try:
            parse_principal(user)
        except ValueError as error:
            raise ConfigError(f"{SUPER_USERS}: {error}; write User:name, with a semicolon between users") from error
    return users


def parse_allow_everyone(text: str) -> bool:
    """Return whether resources without ACLs are open. Raises ConfigError where Kafka takes any other word for false."""
    word = text.strip().lower()
    if word not in ("", "true", "false"):
        raise ConfigError(f"{ALLOW_EVERYONE}: {text.strip()!r} is neither true nor false")
    return word == "true"


class StandardAuthorizer:
    """Decides by the ACLs of the metadata (`crabka.security.authorizer.Authorizer`)."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Raises ConfigError."""
        self._super_users = parse_super_users(settings.get(SUPER_USERS, ""))
        self._allows_unnamed = parse_allow_everyone(settings.get(ALLOW_EVERYONE, ""))
        self._is_ready = False
        self._acls: dict[UUID, Acl] = {}
        # Ids of the same ACL beyond the first: Kafka never writes such, but a log may have them.
        self._copies: dict[Acl, int] = {}
        self._index = AclIndex()
        self._decisions: dict[_Question, bool] = {}

    def allows(self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether an operation on the resource of that name is allowed. Raises AuthorizerNotReadyError."""
        question = (requester, operation, resource_type, name)
        try:
            return self._decisions[question]
        except KeyError:
            allowed = self._decide(requester, operation, resource_type, name)
        return self._remember(question, allowed=allowed)

    def allows_any(self, requester: Requester, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether an operation is allowed on some resource of the type. Raises AuthorizerNotReadyError."""
        question = (requester, operation, resource_type, None)
        allowed = self._decisions.get(question)
        if allowed is None:
            allowed = self._decide(requester, operation, resource_type, _ORDINARY_NAME) or self._grants_some(
                requester, operation, resource_type
            )
            self._remember(question, allowed=allowed)
        return allowed

    def explain(self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str) -> Verdict:
        """Return the decision of `allows` with its reason. Raises AuthorizerNotReadyError."""
        principal = str(requester.principal)
        if principal in self._super_users:
            return _SUPER_USER
        allowed = self._decide(requester, operation, resource_type, name)
        acl = self._index.deciding(principal, requester.host, operation, resource_type, name)
        if acl is None:
            return _DEFAULT_ALLOW if allowed else _DEFAULT_DENY
        return Verdict(allowed, "MatchingAcl", acl)

    def load(self, acls: Mapping[UUID, Acl]) -> None:
        """Replace all ACLs. The authorizer is ready after this."""
        self._acls, self._copies, self._index = {}, {}, AclIndex()
        self._add(acls.items())
        self._is_ready = True
        self._decisions.clear()

    def change(self, added: Mapping[UUID, Acl], removed: Collection[UUID]) -> None:
        """Remove and add some ACLs."""
        for acl_id in (*removed, *(acl_id for acl_id in added if acl_id in self._acls)):
            self._remove(acl_id)
        self._add(added.items())
        self._decisions.clear()

    def _add(self, acls: Iterable[tuple[UUID, Acl]]) -> None:
        for acl_id, acl in acls:
            self._acls[acl_id] = acl
            count = self._copies.get(acl, 0)
            self._copies[acl] = count + 1
            if not count:
                self._index.add(acl)

    def _remove(self, acl_id: UUID) -> None:
        acl = self._acls.pop(acl_id, None)
        if acl is None:
            return
        self._copies[acl] -= 1
        if not self._copies[acl]:
            del self._copies[acl]
            self._index.remove(acl)

    def _decide(self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        principal = str(requester.principal)
        if principal in self._super_users:
            return True
        if not self._is_ready:
            raise AuthorizerNotReadyError
        decided = self._index.decide(principal, requester.host, operation, resource_type, name)
        return self._allows_unnamed if decided is None else decided

    def _remember(self, question: _Question, *, allowed: bool) -> bool:
        if len(self._decisions) >= CACHE_LIMIT:
            self._decisions.clear()
        self._decisions[question] = allowed
        return allowed

    def _grants_some(self, requester: Requester, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether some ALLOW is not wholly covered by a DENY (KIP-679). It implies no other operation."""
        wanted = 1 << operation | 1 << Operation.ALL
        allowed: set[tuple[PatternType, str]] = set()
        denied: set[tuple[PatternType, str]] = set()
        for grant in self._index.grants_of_type(str(requester.principal), requester.host, resource_type):
            if grant.denied & wanted:
                denied.add(grant.pattern)
            if grant.allowed & wanted:
                allowed.add(grant.pattern)
        everything = (PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        return everything in allowed or any(not _is_covered(kind, name, denied) for kind, name in allowed)


def _is_covered(kind: PatternType, name: str, denied: set[tuple[PatternType, str]]) -> bool:
    if kind is PatternType.LITERAL and (kind, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
