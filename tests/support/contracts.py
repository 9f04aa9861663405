"""Running a contract suite inside a test, to see which of its tests an implementation fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest


def broken_promises(contract: type, make_fixtures: Callable[[], dict[str, Any]]) -> set[str]:
    """Return the names of the tests that fail, each with fixtures of its own."""
    suite = contract()
    return {name for name, _test in _tests(contract) if not _passes(getattr(suite, name), make_fixtures())}


def promises_of(contract: type) -> set[str]:
    """Return the names of all tests of a suite."""
    return {name for name, _test in _tests(contract)}


def _tests(contract: type) -> list[tuple[str, Any]]:
    return [(name, test) for name, test in inspect.getmembers(contract) if name.startswith("test_")]


def _passes(test: Callable[..., None], fixtures: dict[str, Any]) -> bool:
    try:
        test(**{name: fixtures[name] for name in inspect.signature(test).parameters})
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - however it fails, it failed
        return False
    return True
