"""Our decisions about random ACLs and questions, compared with those of Kafka's StandardAuthorizer."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from crabka.security.acls import Acl, Operation, PatternType, Permission, ResourceType, host_address
from crabka.security.authorizer import Requester
from crabka.security.principal import Principal
from crabka.security.standard_authorizer import ALLOW_EVERYONE, SUPER_USERS, StandardAuthorizer
from tests.support.kafka.oracle import java_command
from tests.support.nodes.process import PATIENCE_S
from tests.support.scale import scaled

pytestmark = pytest.mark.usefixtures("jvm")

SOURCE = Path(__file__).parent / "java" / "AuthorizerOracle.java"
QUESTIONS_PER_CASE = 200
# Names that are prefixes of each other, begin with `*`, or have more than one UTF-16 unit in a character.
NAMES = ("a", "ab", "abc", "abd", "b", "*", "*a", "**", "hard", "hardcode", "é", "éa", "\U0001f600", "\U0001f600a")
# Names before `*`, only of ACLs: Kafka's search may not end where the resource begins with such a character.
EARLY_NAMES = ("!", "!a")
ACL_PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:CN=a:b", "User:")
PRINCIPALS = (
    ("User", "alice"),
    ("User", "bob"),
    ("Group", "*"),
    ("Group", "alice"),
    ("User", "CN=a:b"),
    ("User", "root"),
)
HOSTS = ("127.0.0.1", "10.0.0.1", "::1", "fe80::a:0:b", "::ffff:10.0.0.1")
TYPES = [each for each in ResourceType if each > ResourceType.ANY]
OPERATIONS = [each for each in Operation if each > Operation.ANY]


class Question(NamedTuple):
    """What is asked about a resource, or about all of a type."""

    about_type: bool
    principal: tuple[str, str]
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str


class Case(NamedTuple):
    """Settings, ACLs and questions about them."""

    super_users: str
    allow_everyone: bool
    acls: list[Acl]
    questions: list[Question]


def make_case(rng: random.Random) -> Case:
    # Few types and operations, so that questions meet ACLs.
    types = rng.sample(TYPES, rng.choice((1, 1, 2, len(TYPES))))
    operations = rng.sample(OPERATIONS, rng.choice((1, 3, len(OPERATIONS))))
    count = rng.choice((0, 1, 2, 5, 20, 200))
    acls = {
        Acl(
            rng.choice(types),
            rng.choice((*NAMES, *EARLY_NAMES)),
            rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            rng.choice(ACL_PRINCIPALS),
            rng.choice(("*", "*", *map(host_address, HOSTS))),
            rng.choice(operations),
            rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        )
        for _ in range(count)
    }
    questions = [
        Question(
            rng.random() < 0.2,
            rng.choice(PRINCIPALS),
            rng.choice(HOSTS),
            rng.choice((*operations, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)),
            rng.choice(types),
            rng.choice((*NAMES, "", "abx", "zz")),
        )
        for _ in range(QUESTIONS_PER_CASE)
    ]
    return Case(rng.choice(("", "User:root", " User:root ; Group:alice;")), rng.random() < 0.3, sorted(acls), questions)


def our_decisions(case: Case) -> list[bool]:
    """Decide each question after an authorizer got the ACLs in two portions and others that are gone again."""
    authorizer = StandardAuthorizer(
        {SUPER_USERS: case.super_users, ALLOW_EVERYONE: "true" if case.allow_everyone else "false"}
    )
    by_id = {UUID(int=number): acl for number, acl in enumerate(case.acls)}
    half = len(by_id) // 2
    first = dict(list(by_id.items())[:half])
    gone = {UUID(int=10_000 + number): acl for number, acl in enumerate(case.acls[half:])}
    authorizer.load({**first, **gone})
    authorizer.change({key: acl for key, acl in by_id.items() if key not in first}, gone.keys())
    return [our_decision(authorizer, question) for question in case.questions]


def our_decision(authorizer: StandardAuthorizer, question: Question) -> bool:
    requester = Requester(Principal(*question.principal), host_address(question.host))
    operation, resource_type = question.operation, question.resource_type
    if question.about_type:
        return authorizer.allows_any(requester, operation, resource_type)
    allowed = authorizer.allows(requester, operation, resource_type, question.name)
    assert authorizer.explain(requester, operation, resource_type, question.name).allowed is allowed
    assert authorizer.allows(requester, operation, resource_type, question.name) is allowed
    return allowed


def kafkas_decisions(cases: list[Case]) -> list[bool]:
    packed = struct.pack(">i", len(cases)) + b"".join(map(pack_case, cases))
    done = subprocess.run(java_command(str(SOURCE)), input=packed, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [byte == 1 for byte in done.stdout]


def pack_case(case: Case) -> bytes:
    acls = [
        struct.pack(">b", acl.resource_type)
        + pack_text(acl.name)
        + struct.pack(">b", acl.pattern_type)
        + pack_text(acl.principal)
        + pack_text(acl.host)
        + struct.pack(">bb", acl.operation, acl.permission)
        for acl in case.acls
    ]
    questions = [
        struct.pack(">?", each.about_type)
        + b"".join(map(pack_text, (*each.principal, each.host)))
        + struct.pack(">bb", each.operation, each.resource_type)
        + pack_text(each.name)
        for each in case.questions
    ]
    return b"".join(
        (
            pack_text(case.super_users),
            struct.pack(">?i", case.allow_everyone, len(acls)),
            *acls,
            struct.pack(">i", len(questions)),
            *questions,
        )
    )


def pack_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def test_decisions_are_those_of_kafkas_standard_authorizer() -> None:
    rng = random.Random(20)
    cases = [make_case(rng) for _ in range(scaled(20_000, 1_000_000) // QUESTIONS_PER_CASE)]
    theirs = iter(kafkas_decisions(cases))
    counts = {True: 0, False: 0}
    for case in cases:
        for question, allowed in zip(case.questions, our_decisions(case), strict=True):
            assert allowed is next(theirs), f"{question} by {case._replace(questions=[])}"
            counts[allowed] += 1
    # Both answers are common, so that neither is right by default.
    assert min(counts.values()) > sum(counts.values()) / 10, counts
