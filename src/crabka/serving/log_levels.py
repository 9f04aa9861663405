"""Levels of the process's loggers, shown and changed as BROKER_LOGGER configs (KIP-412).

They are not stored: a restart brings back the levels of the command line, as in Kafka.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.config.alter import AlterContext, apply_ops
from crabka.errors import OperationError
from crabka.metadata.requests import ACCEPTED, ItemVerdict

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig
    from crabka.metadata.requests import ResourceChange

ROOT = "root"
_PACKAGE = "crabka"
# Kafka's names; Python has neither TRACE nor FATAL.
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES = {logging.WARNING: "WARN", logging.CRITICAL: "FATAL"}


def logger_names() -> frozenset[str]:
    """Return the names of the root logger and of Crabka's own loggers."""
    known = logging.Logger.manager.loggerDict
    return frozenset({ROOT, *(name for name in known if name == _PACKAGE or name.startswith(_PACKAGE + "."))})


def logger_levels() -> dict[str, str]:
    """Return the effective level of each logger, by Kafka's level names."""
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in logger_names()}


def set_logger_level(name: str, level: str | None) -> None:
    """Set a level that was checked before; None makes the logger inherit from its parent."""
    _logger(name).setLevel(logging.NOTSET if level is None else _LEVELS[level])


def change_loggers(server: ServerConfig, change: ResourceChange, *, validate_only: bool) -> ItemVerdict:
    """Set levels of loggers of this process."""
    context = AlterContext(resource_name=change.resource.name, server=server, loggers=logger_names())
    try:
        altered = apply_ops(change.resource.resource_type, {}, change.ops, context)
    except OperationError as error:
        return ItemVerdict.of(error)
    if not validate_only:
        for name, level in altered.items():
            set_logger_level(name, level)
    return ACCEPTED


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(level: int) -> str:
    return _NAMES.get(level, logging.getLevelName(level))
