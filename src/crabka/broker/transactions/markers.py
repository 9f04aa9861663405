"""Retries the markers of a transaction until all of its partitions have them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from crabka.errors import CrabkaError, InvariantError
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.broker.transactions.ports import MarkerWriter, TxnMarker
    from crabka.ids import TopicPartition

logger = logging.getLogger(__name__)

RETRY_PAUSE_MS: Final = 100
# Another coordinator or a newer end of this transaction is active: this marker must not be sent any more.
_OVERTAKEN: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced})


class MarkerDelivery:
    """Sends markers until they are written."""

    def __init__(self, writer: MarkerWriter, topic_exists: Callable[[str], bool]) -> None:
        self._writer = writer
        self._topic_exists = topic_exists

    async def deliver(self, marker: TxnMarker, is_wanted: Callable[[], bool]) -> bool:
        """Return True once all partitions have the marker, False if it must not be sent any more."""
        has_answered = False
        while is_wanted():
            results = await self._write(marker)
            overtaken = [place for place, code in results.items() if code in _OVERTAKEN]
            if overtaken:
                logger.warning("The marker of producer %d is refused by %s: %s", marker.producer_id, *_example(results))
                return False
            left = tuple(place for place in marker.partitions if not self._is_done(place, results.get(place)))
            if not left:
                return True
            if not has_answered:
                has_answered = True
                logger.warning("Retrying the marker of producer %d for %d partitions", marker.producer_id, len(left))
            marker = marker._replace(partitions=left)
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
        return False

    async def _write(self, marker: TxnMarker) -> dict[TopicPartition, ErrorCode]:
        try:
            (results,) = await self._writer.write([marker])
        except InvariantError:
            raise
        except (CrabkaError, OSError) as error:
            logger.warning("Cannot write a marker of producer %d: %s", marker.producer_id, error)
            return {}
        except Exception:
            # Nothing else ends the transaction.
            logger.exception("Cannot write a marker of producer %d", marker.producer_id)
            return {}
        return results

    def _is_done(self, place: TopicPartition, error_code: ErrorCode | None) -> bool:
        if error_code is ErrorCode.unknown_topic_or_partition:
            # No client can read a deleted topic.
            return not self._topic_exists(place.topic)
        return error_code is ErrorCode.none


def _example(results: dict[TopicPartition, ErrorCode]) -> tuple[TopicPartition, str]:
    return next((place, code.name) for place, code in results.items() if code in _OVERTAKEN)
