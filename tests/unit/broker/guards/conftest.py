"""A node with an authorizer and the ACLs of the shared calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.security.guarded_node import GuardedNode, guarded_node


@pytest.fixture(scope="package")
def guarded() -> Iterator[GuardedNode]:
    """One node for all tests of the package: they change nothing that others see."""
    with guarded_node() as node:
        yield node
