"""The memory of a streaming query: witnesses of the batches that it read, to detect that a log was cut.

Checkpoints have the form of Spark's Kafka source, which holds offsets only, and Spark does not pass the place of the
checkpoint to Python sources. So witnesses are kept elsewhere: at the option positionLocation, or in the driver's cache.
They are facts about a topic, stored under the offsets where batches of queries ended. A query that continues at such an
offset verifies them; at another offset there is nothing to verify. A checkpoint of Spark's own source, or one whose
witnesses are lost, has them again after its next batch.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from crabka.errors import ConfigError
from crabka.ids import TopicPartition
from crabka.remote.backends.bucket import Bucket
from crabka.remote.backends.buckets import bucket_settings, open_bucket
from crabka.remote.backends.store_errors import ObjectMissingError
from crabka.remote.errors import RemoteBackendError
from crabka.spark.errors import TopicChangedError, lose
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.catalog.cache_files import cache_directory
from crabka.spark.plan.history.divergence import ReadPosition
from crabka.spark.plan.history.histories import inspect_history
from crabka.spark.plan.history.witnesses import BatchWitness, Chain, chains_from_json, chains_to_json
from crabka.spark.plan.ranges import ReadPlan
from crabka.vfs import OsFileSystem

logger = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, int]

_FORMAT: Final = 1
# Ends of batches that are remembered of a partition, by all queries together.
_KEPT: Final = 64


class _Remembered(NamedTuple):
    """The ends of batches of one topic, by partition: the last batch before each of them, the newest end last."""

    topic_id: str | None
    ends: dict[int, dict[int, BatchWitness]]


class StreamHistory:
    """The witnesses of the topics of one query. Goes to executors as it is."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def chains(self, starts: Offsets) -> dict[TopicPartition, Chain]:
        """Return the witnesses of what lies before offsets, for those where a batch ended."""
        known = {topic: self._load(topic) for topic in {partition.topic for partition in starts}}
        return {p: _chain(known[p.topic].ends.get(p.partition, {}), start) for p, start in starts.items()}

    def verify(self, plan: ReadPlan, starts: Offsets, ends: Offsets) -> None:
        """Verify what was read before a batch, and remember the end of the batch before anything of it is read.

        Raises LogCutError and TopicChangedError, unless losses are accepted, and what stores and brokers raise.
        """
        moved = {p: end for p, end in ends.items() if end > starts.get(p, end) and p.topic in plan.topic_ids}
        known = {topic: self._load(topic, plan.topic_ids[topic]) for topic in {p.topic for p in moved}}
        for topic, content in known.items():
            if plan.topic_ids[topic] not in (None, content.topic_id):
                known[topic] = self._leave(topic, content, plan.topic_ids[topic], {p: starts[p] for p in moved})
        positions = {
            p: ReadPosition(starts[p], _chain(known[p.topic].ends.get(p.partition, {}), starts[p])) for p in moved
        }
        found = inspect_history(self._options, plan.survey, positions, {p: [end - 1] for p, end in moved.items()})
        for partition, witnesses in found.witnesses.items():
            remembered = known[partition.topic].ends.setdefault(partition.partition, {})
            remembered.pop(moved[partition], None)
            remembered[moved[partition]] = witnesses[-1]
        for topic, content in known.items():
            self._store(topic, content)

    def _leave(self, topic: str, content: _Remembered, topic_id: str | None, starts: Offsets) -> _Remembered:
        """Return what is known of a topic that another one had the name of: nothing.

        Raises TopicChangedError if the query goes on where a batch of the other one ended, unless losses are accepted.
        """
        read = [p for p, start in starts.items() if p.topic == topic and start in content.ends.get(p.partition, {})]
        if read and content.topic_id is not None:
            lose(
                self._options,
                TopicChangedError(
                    f"the topic {topic} was deleted and created anew: what was read of {min(read)} before offset "
                    f"{starts[min(read)]} is of the topic with the id {content.topic_id}, the topic has {topic_id} now"
                ),
            )
        return _Remembered(topic_id, {})

    def _load(self, topic: str, topic_id: str | None = None) -> _Remembered:
        """Return what is known of a topic, or of another one that had its name; the id is that of a new one."""
        try:
            content = json.loads(self._bucket().get(self._key(topic)))
            return _decoded(content)
        except ObjectMissingError:
            return _Remembered(topic_id, {})
        except (ValueError, KeyError, TypeError, ConfigError, RemoteBackendError) as error:
            logger.warning(
                "what was read of %s cannot be verified, because its witnesses cannot be read: %s", topic, error
            )
            return _Remembered(topic_id, {})

    def _store(self, topic: str, content: _Remembered) -> None:
        try:
            self._bucket().put(self._key(topic), json.dumps(_encoded(content)).encode())
        except RemoteBackendError as error:
            logger.warning("a cut of the log of %s may go unnoticed when the query starts again: %s", topic, error)

    def _bucket(self) -> Bucket:
        place = self._options.position_location
        if place is None:
            return open_bucket("local", {"dir": str(cache_directory() / "positions")}, OsFileSystem())
        return open_bucket(*bucket_settings(place), OsFileSystem())

    def _key(self, topic: str) -> str:
        """Return the name of a topic's file. The driver's own place has topics of all clusters."""
        if self._options.position_location is not None:
            return f"crabka-positions-{topic}.json"
        cluster = f"{self._options.bootstrap}\0{self._options.tier_uri}\0{topic}"
        return f"positions-{hashlib.sha256(cluster.encode()).hexdigest()[:32]}.json"


def _chain(ends: Mapping[int, BatchWitness], start: int) -> Chain:
    """Return the witnesses before an offset, if a batch ended there: those that were remembered until then."""
    if start not in ends:
        return ()
    earlier = list(ends)[: list(ends).index(start) + 1]
    return tuple(ends[end] for end in sorted(end for end in earlier if end <= start))


def _encoded(content: _Remembered) -> dict[str, Any]:
    newest = {partition: list(ends.items())[-_KEPT:] for partition, ends in content.ends.items()}
    chains = {partition: tuple(witness for _, witness in ends) for partition, ends in newest.items()}
    return {
        "format": _FORMAT,
        "topic_id": content.topic_id,
        "ends": {str(partition): [end for end, _ in ends] for partition, ends in newest.items()},
        "witnesses": chains_to_json(chains),
    }


def _decoded(content: Mapping[str, Any]) -> _Remembered:
    if content["format"] != _FORMAT:
        raise ValueError(f"its format is {content['format']}")
    chains = chains_from_json(content["witnesses"])
    ends: dict[int, Iterable[int]] = {int(partition): each for partition, each in content["ends"].items()}
    return _Remembered(
        content["topic_id"],
        {partition: dict(zip(ends[partition], chain, strict=True)) for partition, chain in chains.items()},
    )
