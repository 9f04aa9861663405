"""Tests of the decisions about ACLs."""

from __future__ import annotations

import itertools
from uuid import UUID

import pytest

from crabka.errors import ConfigError
from crabka.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from crabka.security.authorizer import AuthorizerNotReadyError, Requester
from crabka.security.principal import Principal
from crabka.security.standard_authorizer import ALLOW_EVERYONE, CACHE_LIMIT, SUPER_USERS, StandardAuthorizer

ALICE = Requester(Principal("User", "alice"), "10.0.0.1")
BOB = Requester(Principal("User", "bob"), "10.0.0.2")
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
_ids = itertools.count(1)


def acl(
    operation: Operation,
    name: str = "orders",
    *,
    user: str = "User:alice",
    host: str = "*",
    prefixed: bool = False,
    deny: bool = False,
    resource_type: ResourceType = TOPIC,
) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(resource_type, name, pattern, user, host, operation, Permission.DENY if deny else Permission.ALLOW)


def authorizer(*acls: Acl, **settings: str) -> StandardAuthorizer:
    made = StandardAuthorizer({key.replace("_", "."): value for key, value in settings.items()})
    made.load({UUID(int=next(_ids)): each for each in acls})
    return made


def test_nothing_is_allowed_without_acls_unless_a_setting_says_so() -> None:
    assert not authorizer().allows(ALICE, READ, TOPIC, "orders")
    open_one = authorizer(acl(READ, "secret", user="User:bob"), **{ALLOW_EVERYONE: "TRUE"})
    assert open_one.allows(ALICE, READ, TOPIC, "orders")
    assert open_one.explain(ALICE, READ, TOPIC, "orders").rule == "DefaultAllow"
    # An ACL of another user names this topic.
    assert not open_one.allows(ALICE, READ, TOPIC, "secret")
    assert open_one.explain(ALICE, READ, TOPIC, "secret").rule == "DefaultDeny"


@pytest.mark.parametrize("granted", [READ, WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL])
def test_operations_include_describe(granted: Operation) -> None:
    assert authorizer(acl(granted)).allows(ALICE, DESCRIBE, TOPIC, "orders")
    # But to deny one of them does not deny it, unless it is all of them.
    denied = authorizer(acl(granted, deny=True), acl(DESCRIBE))
    assert denied.allows(ALICE, DESCRIBE, TOPIC, "orders") is (granted is not Operation.ALL)


def test_alter_configs_includes_describe_configs_and_create_includes_nothing() -> None:
    assert authorizer(acl(Operation.ALTER_CONFIGS)).allows(ALICE, Operation.DESCRIBE_CONFIGS, TOPIC, "orders")
    assert not authorizer(acl(Operation.CREATE)).allows(ALICE, DESCRIBE, TOPIC, "orders")


def test_the_reason_of_a_denial_is_the_deny_even_where_the_name_is_longer_in_an_allow() -> None:
    denial = acl(Operation.ALL, "ord", prefixed=True, deny=True, user="User:*")
    verdict = authorizer(acl(READ), denial).explain(ALICE, READ, TOPIC, "orders")
    assert (verdict.allowed, verdict.rule, verdict.acl) == (False, "MatchingAcl", denial)
    assert "DENY ALL on TOPIC PREFIXED 'ord' for User:* from *" in str(verdict)


def test_the_reason_of_a_permission_names_the_operation_that_includes_it() -> None:
    grant = acl(WRITE, host="10.0.0.1")
    assert authorizer(grant).explain(ALICE, DESCRIBE, TOPIC, "orders").acl == grant


def test_hosts_and_principals_are_exact_or_everyone() -> None:
    here = authorizer(acl(READ, host="10.0.0.1", user="User:*"))
    assert here.allows(ALICE, READ, TOPIC, "orders")
    assert not here.allows(BOB, READ, TOPIC, "orders")
    assert not authorizer(acl(READ, user="User:ali")).allows(ALICE, READ, TOPIC, "orders")
    # The wildcard is one of users.
    group = Requester(Principal("Group", "alice"), "10.0.0.1")
    assert authorizer(acl(READ, user="User:*")).allows(group, READ, TOPIC, "orders")


def test_names_that_begin_with_an_asterisk_are_not_covered_by_the_wildcard() -> None:
    every = authorizer(acl(READ, "*"))
    assert every.allows(ALICE, READ, TOPIC, "orders")
    assert every.allows(ALICE, READ, TOPIC, "*")
    assert not every.allows(ALICE, READ, TOPIC, "*a")


def test_super_users_may_do_everything_before_the_acls_are_loaded() -> None:
    starting = StandardAuthorizer({SUPER_USERS: "User:root; User:CN=node 1,O=x"})
    root = Requester(Principal("User", "root"), "::1")
    assert starting.allows(root, Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert starting.allows_any(root, WRITE, TOPIC)
    assert starting.explain(root, WRITE, TOPIC, "x").rule == "SuperUser"
    for ask in (starting.allows, starting.explain):
        with pytest.raises(AuthorizerNotReadyError):
            ask(ALICE, READ, TOPIC, "orders")
    with pytest.raises(AuthorizerNotReadyError):
        starting.allows_any(ALICE, READ, TOPIC)
    starting.load({})
    assert not starting.allows(ALICE, READ, TOPIC, "orders")


def test_a_token_of_a_super_user_is_one_as_well() -> None:
    by_token = Requester(Principal("User", "root", by_token=True), "::1")
    assert authorizer(**{SUPER_USERS: "User:root"}).allows(by_token, READ, TOPIC, "x")


def test_super_users_that_are_no_principals_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"super\.users: .*but got root"):
        StandardAuthorizer({SUPER_USERS: "root"})


def test_another_word_than_true_and_false_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"allow\.everyone\.if\.no\.acl\.found: 'yes' is neither true nor false"):
        StandardAuthorizer({ALLOW_EVERYONE: "yes"})


def test_every_change_of_acls_counts_at_once() -> None:
    made = authorizer()
    grant, copy = UUID(int=next(_ids)), UUID(int=next(_ids))
    assert not made.allows(ALICE, READ, TOPIC, "orders")
    assert not made.allows_any(ALICE, READ, TOPIC)
    made.change({grant: acl(READ), copy: acl(READ)}, [])
    assert made.allows(ALICE, READ, TOPIC, "orders")
    assert made.allows_any(ALICE, READ, TOPIC)
    # The same ACL under another id stays in force.
    made.change({}, [grant])
    assert made.allows(ALICE, READ, TOPIC, "orders")
    made.change({copy: acl(READ, "other")}, [])
    assert not made.allows(ALICE, READ, TOPIC, "orders")
    assert made.allows(ALICE, READ, TOPIC, "other")
    made.change({}, [copy, UUID(int=0)])
    assert not made.allows_any(ALICE, READ, TOPIC)
    assert not made.allows(ALICE, READ, TOPIC, "other")


def test_remembered_decisions_are_bounded() -> None:
    made = authorizer(acl(READ, "t", prefixed=True))
    for number in range(CACHE_LIMIT + 10):
        assert made.allows(ALICE, READ, TOPIC, f"t{number}")
    assert len(made._decisions) == 10


def test_a_type_is_open_unless_every_allow_is_covered_by_a_deny() -> None:
    def any_write(*acls: Acl) -> bool:
        return authorizer(*acls).allows_any(ALICE, WRITE, TOPIC)

    assert any_write(acl(WRITE, "a"))
    assert not any_write(acl(WRITE, "a"), acl(WRITE, "a", deny=True))
    assert not any_write(acl(WRITE, "ab", prefixed=True), acl(Operation.ALL, "a", prefixed=True, deny=True))
    assert any_write(acl(WRITE, "a", prefixed=True), acl(WRITE, "ab", prefixed=True, deny=True))
    assert any_write(acl(WRITE, "a", prefixed=True), acl(WRITE, "a", deny=True))
    assert not any_write(acl(WRITE, "a"), acl(WRITE, "*", deny=True))
    assert not any_write(acl(READ, "a"))
    assert not any_write(acl(WRITE, "a", user="User:bob"))
