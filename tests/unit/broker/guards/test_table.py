"""The table of permissions: every API has a row, and without permissions no API does anything."""

from __future__ import annotations

import pytest

from crabka.broker.api_table import TABLE
from crabka.broker.guards.table import GUARDS
from crabka.controller.api_table import TABLE as CONTROLLER_TABLE
from crabka.controller.guards.table import GUARDS as CONTROLLER_GUARDS
from tests.support.security.calls import CALLS, chosen_versions, outcome
from tests.support.security.guarded_node import GuardedNode, versions_of

# Calls that answer without an error to a user who may do nothing: with nothing in them.
EMPTY_FOR_BOB = {"list groups", "list transactions", "metadata of all", "describe all partitions", "describe cluster"}


def test_every_api_has_a_row() -> None:
    assert {int(key) for key in GUARDS} == set(TABLE.served)
    assert {int(key) for key in CONTROLLER_GUARDS} == set(CONTROLLER_TABLE.served)


def test_every_row_says_what_it_needs() -> None:
    for row in (*GUARDS.values(), *CONTROLLER_GUARDS.values()):
        assert bool(row.checks) != bool(row.note)
        assert bool(row.checks) == (row.guard is not None or row.handle is not None)


def test_every_api_with_a_check_is_called() -> None:
    called = {api_key for api_key, _ in CALLS.values()}
    checked = {key for key, row in GUARDS.items() if row.checks}
    forwarded = {key for key, row in CONTROLLER_GUARDS.items() if key in GUARDS and row.checks}
    assert checked | forwarded <= called


@pytest.mark.parametrize("call", CALLS)
def test_a_user_without_permissions_is_refused(guarded: GuardedNode, call: str) -> None:
    api_key, _ = CALLS[call]
    for version in chosen_versions(versions_of(api_key)):
        codes = {code for place, code in outcome(guarded.call("bob", call, api_key, version)) if "error_code" in place}
        refused = {code for code in codes if code.endswith("_authorization_failed")}
        # Version 1 of DescribeLogDirs has no field for the error.
        if call in EMPTY_FOR_BOB or (call, version) == ("describe log dirs", 1):
            assert codes <= {"none"}
        else:
            # An id that does not exist is no secret, and the answer as a whole has no error where its rows have one.
            assert refused
            assert codes - refused <= {"none", "unknown_topic_id", "operation_not_attempted"}


@pytest.mark.parametrize("call", CALLS)
def test_a_super_user_is_never_refused(guarded: GuardedNode, call: str) -> None:
    api_key, _ = CALLS[call]
    version = versions_of(api_key)[-1]
    codes = {code for _, code in outcome(guarded.call("root", call, api_key, version))}
    assert not {code for code in codes if code.endswith("_authorization_failed")}
