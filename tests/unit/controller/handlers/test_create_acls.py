"""CreateAcls against a node."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from tests.support.nodes.sim_node import batch, produce_body
from tests.support.security.guarded_node import guarded_node

GRANT = Acl(ResourceType.TOPIC, "open", PatternType.LITERAL, "User:eve", "*", Operation.WRITE, Permission.ALLOW)


def test_a_new_acl_is_in_force_with_its_answer_and_after_a_restart() -> None:
    with guarded_node() as guarded:

        def written() -> ErrorCode:
            answer = guarded.ask("eve", ApiKey.PRODUCE, 9, produce_body("open", batch(b"v")))
            code: ErrorCode = answer.responses[0].partition_responses[0].error_code
            return code

        assert written() is ErrorCode.topic_authorization_failed
        assert [each.error_code for each in guarded.add_acls([GRANT, GRANT._replace(name="")])] == [
            ErrorCode.none,
            ErrorCode.invalid_request,
        ]
        assert written() is ErrorCode.none
        guarded.restart()
        assert written() is ErrorCode.none
        guarded.add_acls([GRANT._replace(permission=Permission.DENY, operation=Operation.ALL)])
        assert written() is ErrorCode.topic_authorization_failed
