"""Blocks of producer ids: each is committed before a broker uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.controller.decisions.control_view import ControlView
from crabka.errors import OperationError
from crabka.metadata.records import ProducerIdsRecord
from crabka.metadata.requests import Outcome
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.metadata.image import MetadataImage

BLOCK_SIZE = 1000
_LAST_ID = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    """Ids from `first_id` on, for one broker alone."""

    first_id: int
    size: int


def allocate_block(image: MetadataImage, *, broker_id: int, broker_epoch: int) -> Outcome[ProducerIdBlock]:
    """Take the next block of ids for the registered incarnation of a broker.

    Raises OperationError: STALE_BROKER_EPOCH, or UNKNOWN_SERVER_ERROR when all ids were given out.
    """
    ControlView(image).require_broker_epoch(broker_id, broker_epoch)
    first = max(0, image.producer_ids.next_producer_id)
    if first > _LAST_ID - BLOCK_SIZE:
        raise OperationError(ErrorCode.unknown_server_error, "There are no producer ids left.")
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE)
    return Outcome(ProducerIdBlock(first, BLOCK_SIZE), [record])
