"""What a node counts."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from crabka.serving.metrics import NodeMetrics


def test_every_api_has_a_counter() -> None:
    assert len(NodeMetrics().requests) > max(ApiKey)
    assert not any(NodeMetrics().requests)
