"""Lines of the audit log."""

from __future__ import annotations

import json
import logging

import pytest

from crabka.protocol.apis import ApiKey
from crabka.serving.access.audit import LOGGER_NAME
from tests.support.security.guarded_node import guarded_node


def test_a_denial_is_one_line_of_json(caplog: pytest.LogCaptureFixture) -> None:
    with guarded_node() as guarded, caplog.at_level(logging.INFO, LOGGER_NAME):
        caplog.clear()
        guarded.call("carol", "list offsets", ApiKey.LIST_OFFSETS, 7)
        (record,) = [each for each in caplog.records if each.name == LOGGER_NAME]
    assert record.levelno == logging.INFO
    line = json.loads(record.getMessage())
    assert line.pop("time").endswith("+00:00")
    assert line.pop("host")
    assert line == {
        "principal": "User:carol",
        "listener": "PLAINTEXT",
        "api": "LIST_OFFSETS",
        "operation": "DESCRIBE",
        "resource": "TOPIC:open",
        "verdict": "denied",
        "reason": "MatchingAcl(DENY ALL on TOPIC LITERAL 'open' for User:carol from *)",
    }


def test_permissions_are_logged_for_debugging_only(caplog: pytest.LogCaptureFixture) -> None:
    with guarded_node() as guarded, caplog.at_level(logging.DEBUG, LOGGER_NAME):
        caplog.clear()
        guarded.call("alice", "heartbeat", ApiKey.HEARTBEAT, 4)
        (record,) = [each for each in caplog.records if each.name == LOGGER_NAME]
    assert record.levelno == logging.DEBUG
    assert json.loads(record.getMessage())["verdict"] == "allowed"


def test_what_is_only_left_out_is_no_denial(caplog: pytest.LogCaptureFixture) -> None:
    with guarded_node() as guarded, caplog.at_level(logging.INFO, LOGGER_NAME):
        caplog.clear()
        guarded.call("bob", "metadata of all", ApiKey.METADATA, 4)
        guarded.call("bob", "list groups", ApiKey.LIST_GROUPS, 4)
        assert [each for each in caplog.records if each.name == LOGGER_NAME] == []
