"""The one way to change metadata: decide on the newest image, append, wait until it is applied.

Decisions are pure functions of the controller package. They run one at a time, each on an image that holds
everything decided before, so two requests can never both create the same topic.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.controller.outcome import Outcome
    from crabka.metadata.image import MetadataImage
    from crabka.quorum.standalone import StandaloneQuorum

T = TypeVar("T")


class MetadataWriter:
    """Serialises controller decisions of this node."""

    def __init__(self, quorum: StandaloneQuorum) -> None:
        self._quorum = quorum
        self._turn = asyncio.Lock()

    async def submit(self, decide: Callable[[MetadataImage], Outcome[T]]) -> T:
        """Run a decision and return its result once its records are durable and applied.

        Raises OperationError from the decision; nothing is written then.
        """
        async with self._turn:
            outcome = decide(self._quorum.image)
            if outcome.records:
                await self._quorum.append(outcome.records)
            return outcome.result
