"""Blocks of producer ids: each is written down before anybody uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.controller.outcome import Outcome
from crabka.metadata.records import ProducerIdsRecord

if TYPE_CHECKING:
    from crabka.metadata.image import MetadataImage

BLOCK_SIZE = 1000


class ProducerIdBlock(NamedTuple):
    """Ids from `first_id` on, for one broker alone."""

    first_id: int
    size: int


def allocate_block(image: MetadataImage, *, broker_id: int, broker_epoch: int) -> Outcome[ProducerIdBlock]:
    """Take the next block of ids."""
    first = max(0, image.producer_ids.next_producer_id)
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE)
    return Outcome(ProducerIdBlock(first, BLOCK_SIZE), [record])
