"""A simulated node with an authorizer, whose requests come from the user that a test names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from crabka.broker.api_table import SERVED
from crabka.config.java_classes import STANDARD_AUTHORIZER
from crabka.net.dispatch import ConnectionInfo, Dispatch
from crabka.protocol.apis import ApiKey
from crabka.security.acls import Acl
from crabka.security.principal import Principal
from tests.support.nodes.sim_node import SimNode, row
from tests.support.security.calls import ACLS, TOPICS, TopicIds, request_body

SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:root",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class GuardedNode:
    """A node that is asked in the name of users."""

    def __init__(self, node: SimNode) -> None:
        self.sim = node
        self._user = "root"
        self.topic_ids: TopicIds = {}
        self._intercept()

    def restart(self) -> None:
        """Stop cleanly and start again."""
        self.sim.restart()
        self._intercept()

    def _intercept(self) -> None:
        assert self.sim.node is not None
        self.sim.node.listeners.intercept(self._as_user)

    def _as_user(self, dispatch: Dispatch) -> Dispatch:
        def answer(connection: ConnectionInfo, frame: memoryview) -> Any:
            connection.principal = Principal("User", self._user)
            return dispatch(connection, frame)

        return answer

    def ask(self, user: str, api_key: ApiKey, version: int, body: Any = None, **fields: Any) -> Any:
        """Send a request of a user and return the response."""
        self._user = user
        try:
            return self.sim.ask(api_key, version, body, **fields)
        finally:
            self._user = "root"

    def call(self, user: str, call: str, api_key: ApiKey, version: int) -> Any:
        """Send one of the calls that tests share."""
        return self.ask(user, api_key, version, request_body(call, version, self.topic_ids))

    def add_acls(self, acls: Iterable[Acl]) -> Any:
        """Create ACLs as a super user and return the rows of the answer."""
        creations = [
            row(
                "AclCreation",
                resource_type=int(acl.resource_type),
                resource_name=acl.name,
                resource_pattern_type=int(acl.pattern_type),
                principal=acl.principal,
                host=acl.host,
                operation=int(acl.operation),
                permission_type=int(acl.permission),
            )
            for acl in acls
        ]
        return self.ask("root", ApiKey.CREATE_ACLS, 3, creations=creations).results


@contextmanager
def guarded_node(settings: Mapping[str, str] | None = None, acls: Iterable[Acl] = ACLS) -> Iterator[GuardedNode]:
    """Run a node with the topics of the calls and the ACLs, by default those of the calls."""
    with SimNode({**SETTINGS, **(settings or {})}) as node:
        guarded = GuardedNode(node)
        guarded.add_acls(acls)
        for name in TOPICS:
            guarded.topic_ids[name] = node.create_topic(name).topic_id
        for key_type in (0, 1):
            for _ in range(2):
                guarded.ask("root", ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=("open",))
                node.advance(1000)
        yield guarded


def versions_of(api_key: ApiKey) -> range:
    """Return the versions of an API that a node serves."""
    served = SERVED[int(api_key)]
    return range(served.min_version, served.max_version + 1)
