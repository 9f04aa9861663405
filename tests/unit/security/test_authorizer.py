"""Tests of the values of the port of authorizers."""

from __future__ import annotations

from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from crabka.security.authorizer import AuthorizerNotReadyError, Verdict


def test_a_verdict_names_its_rule_and_its_acl() -> None:
    acl = Acl(ResourceType.GROUP, "g", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)
    assert str(Verdict(allowed=False, rule="DefaultDeny")) == "DefaultDeny"
    matching = Verdict(allowed=True, rule="MatchingAcl", acl=acl)
    assert str(matching) == "MatchingAcl(ALLOW READ on GROUP LITERAL 'g' for User:a from *)"


def test_an_authorizer_that_is_not_ready_is_an_error_of_the_server() -> None:
    assert AuthorizerNotReadyError().error_code is ErrorCode.unknown_server_error
