"""Sends the markers that end transactions to the leaders of their partitions (KIP-98).

The markers of a transaction are grouped by the leaders in the metadata: those of this node are written here, the
others are sent with WriteTxnMarkers, several transactions in one request. Nothing is retried here: the caller sees
which partitions are left and calls again, with the leaders of that time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crabka.broker.cluster_view import leader_of
from crabka.broker.inter_broker.outboxes import BrokerOutboxes
from crabka.broker.transactions.records import by_topic
from crabka.errors import CrabkaError, InvariantError
from crabka.ids import TopicPartition
from crabka.metadata.topics import NO_LEADER
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crabka.broker.inter_broker.outboxes import OtherBrokers
    from crabka.broker.transactions.ports import MarkerWriter, TxnMarker
    from crabka.protocol.apis import MessageTypes

    Results = dict[TopicPartition, ErrorCode]

log = logging.getLogger(__name__)

# A marker waits until it is replicated: it must not delay requests with immediate answers.
MARKER_CHANNEL: Final = "markers"
MAX_MARKERS_PER_REQUEST: Final = 500


class _Sending(NamedTuple):
    marker: TxnMarker
    results: asyncio.Future[Results]


class ClusterMarkerWriter:
    """Markers for partitions of all brokers."""

    def __init__(self, local: MarkerWriter, others: OtherBrokers) -> None:
        self._local = local
        self._others = others
        self._outboxes: BrokerOutboxes[_Sending] = BrokerOutboxes(
            others.spawn, self._send, give_up=_give_up, max_batch_count=MAX_MARKERS_PER_REQUEST
        )

    async def write(self, markers: Sequence[TxnMarker]) -> list[Results]:
        """Write all markers and wait until they are replicated; return one result per marker.

        A partition without a leader has NOT_LEADER_OR_FOLLOWER, one whose leader cannot be reached NETWORK_EXCEPTION.
        """
        return list(await asyncio.gather(*map(self._write, markers)))

    async def _write(self, marker: TxnMarker) -> Results:
        places, results = self._by_leader(marker.partitions)
        parts = []
        for node_id, group in places.items():
            part = marker._replace(partitions=tuple(group))
            parts.append(
                self._write_here(part) if node_id == self._others.identity.node_id else self._queue(node_id, part)
            )
        for written in await asyncio.gather(*parts):
            results.update(written)
        return results

    def _by_leader(self, partitions: Sequence[TopicPartition]) -> tuple[dict[int, list[TopicPartition]], Results]:
        """Return partitions by leader, and the errors of those without one."""
        image = self._others.image()
        led: dict[int, list[TopicPartition]] = {}
        refused: Results = {}
        for place in partitions:
            partition = image.topics.partition(*place)
            if partition is None:
                refused[place] = ErrorCode.unknown_topic_or_partition
                continue
            leader = leader_of(image, partition)
            if leader == NO_LEADER:
                refused[place] = ErrorCode.not_leader_or_follower
            else:
                led.setdefault(leader, []).append(place)
        return led, refused

    async def _write_here(self, marker: TxnMarker) -> Results:
        (results,) = await self._local.write([marker])
        return results

    async def _queue(self, node_id: int, marker: TxnMarker) -> Results:
        earlier = self._outboxes.waiting(node_id, marker.producer_id)
        if earlier is not None:
            # The id was loaded again: the sender of the earlier marker no longer coordinates it.
            _resolve(earlier, dict.fromkeys(earlier.marker.partitions, ErrorCode.transaction_coordinator_fenced))
        sending = _Sending(marker, asyncio.get_running_loop().create_future())
        self._outboxes.put(node_id, marker.producer_id, sending)
        return await sending.results

    async def _send(self, node_id: int, batch: list[_Sending]) -> None:
        markers = [each.marker for each in batch]
        try:
            answer = await self._others.brokers.request(
                node_id,
                ApiKey.WRITE_TXN_MARKERS,
                lambda types: _request(types, markers),
                self._others.timeout_ms(),
                channel=MARKER_CHANNEL,
            )
            results = _results(answer)
            self._outboxes.note_reached(node_id)
        except InvariantError:
            raise
        except (CrabkaError, OSError) as error:
            if self._outboxes.note_unreached(node_id):
                log.warning("Markers for broker %d have to wait: %s", node_id, error)
            results = {}
        for sending in batch:
            known = results.get(sending.marker.producer_id, {})
            places = sending.marker.partitions
            _resolve(sending, {place: known.get(place, ErrorCode.network_exception) for place in places})


def _give_up(sending: _Sending) -> None:
    _resolve(sending, dict.fromkeys(sending.marker.partitions, ErrorCode.network_exception))


def _resolve(sending: _Sending, results: Results) -> None:
    if not sending.results.done():
        sending.results.set_result(results)


def _request(types: MessageTypes, markers: Sequence[TxnMarker]) -> Any:
    rows = [
        types.new(
            "WritableTxnMarker",
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.commit,
            topics=[
                types.new("WritableTxnMarkerTopic", name=name, partition_indexes=indexes)
                for name, indexes in by_topic(marker.partitions).items()
            ],
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        for marker in markers
    ]
    return types.message(markers=rows)


def _results(answer: Any) -> Mapping[int, Results]:
    return {
        row.producer_id: {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in row.topics
            for each in topic.partitions
        }
        for row in answer.markers
    }
