"""Levels of the process's loggers in Kafka's words."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from crabka.config.alter import ConfigOp
from crabka.metadata.configs import ConfigResource
from crabka.metadata.requests import ResourceChange
from crabka.protocol.error_codes import ErrorCode
from crabka.serving.log_levels import change_loggers, logger_levels, logger_names, set_logger_level
from tests.support.quorum.sim_controllers import controller_config

NAME = "crabka.test_log_levels"


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger(NAME)
    yield made
    made.setLevel(logging.NOTSET)


def test_only_the_root_and_our_own_loggers_are_shown() -> None:
    logging.getLogger("foreign")
    names = logger_names()
    assert {"root", NAME} <= names
    assert "foreign" not in names


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("DEBUG", "DEBUG"),
        ("TRACE", "DEBUG"),
        ("WARN", "WARN"),
        ("ERROR", "ERROR"),
        ("FATAL", "FATAL"),
        ("INFO", "INFO"),
    ],
)
def test_levels_have_kafkas_names(given: str, shown: str) -> None:
    set_logger_level(NAME, given)
    assert logger_levels()[NAME] == shown


def test_none_gives_a_logger_back_to_its_parent() -> None:
    set_logger_level(NAME, "FATAL")
    set_logger_level(NAME, None)
    assert logging.getLogger(NAME).level == logging.NOTSET


def test_validation_alone_leaves_loggers_alone() -> None:
    before = logging.getLogger(NAME).level
    change = ResourceChange(ConfigResource(8, "1"), [ConfigOp(NAME, 0, "ERROR")])
    config = controller_config(1, 1, {})
    assert change_loggers(config, change, validate_only=True).error_code is ErrorCode.none
    assert logging.getLogger(NAME).level == before
