from __future__ import annotations

from pathlib import Path

import pytest

from crabka.clients import NewTopic, SyncAdmin, SyncProducer
from crabka.clients.errors import ClientNetworkError
from crabka.clients.fetcher.messages import FetchAnswer
from crabka.embedded import Broker
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.context import PlanContext, open_context
from crabka.spark.plan.history.batch_lookup import BatchLookup
from crabka.spark.plan.survey import PartitionSurvey, make_survey
from tests.support.tiers.plans import options
from tests.support.tiers.planted import batches, two_segments
from tests.support.tiers.stores import write_tier

pytestmark = pytest.mark.usefixtures("plan_cache")

T0 = TopicPartition("t", 0)
O0 = TopicPartition("orders", 0)


def broker_options(bootstrap: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": "t", "fetchOffset.retryIntervalMs": "0"}
    return SourceOptions.parse(given, streaming=False)


def test_batches_are_found_at_the_leader() -> None:
    with Broker() as broker, SyncAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", 1)])
        for count in (3, 4):
            with SyncProducer(broker.bootstrap_servers) as producer:
                producer.send_many("t", [(None, b"x")] * count)
        with open_context(broker_options(broker.bootstrap_servers)) as context:
            found = BatchLookup(context, make_survey(context).partitions).find([(T0, 1), (T0, 6), (T0, 7), (T0, 99)])
    spans = {place: (header.base_offset, header.last_offset) for place, header in found.items()}
    assert spans == {(T0, 1): (0, 2), (T0, 6): (3, 6)}


def test_batches_are_found_in_the_tier(tmp_path: Path) -> None:
    with open_context(options(write_tier(two_segments(), tmp_path))) as context:
        lookup = BatchLookup(context, make_survey(context).partitions)
        found = lookup.find([(O0, offset) for offset in range(62)])
    spans = {offset: (header.base_offset, header.last_offset) for (_, offset), header in found.items()}
    assert spans == {offset: (offset - offset % 5, offset - offset % 5 + 4) for offset in range(60)}


class _Session:
    """Gives the answers of a script."""

    def __init__(self, *answers: FetchAnswer | Exception) -> None:
        self.answers = list(answers)

    def fetch(self, *_args: object, topic_id: str | None) -> FetchAnswer:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def lookup_of(*answers: FetchAnswer | Exception) -> BatchLookup:
    context = PlanContext(broker_options("x:1"), _Session(*answers), None)  # type: ignore[arg-type]
    return BatchLookup(context, {T0: PartitionSurvey(None, 0, 9)})


EMPTY = FetchAnswer(ErrorCode.none, 9, 0, (), b"")
FULL = FetchAnswer(ErrorCode.none, 9, 0, (), batches(5, 1))


def test_a_leader_that_does_not_answer_at_once_is_asked_again() -> None:
    assert (T0, 5) in lookup_of(EMPTY, ClientNetworkError("x"), FULL).find([(T0, 5)])
    assert lookup_of(EMPTY, EMPTY, EMPTY).find([(T0, 5)]) == {}
    with pytest.raises(ClientNetworkError):
        lookup_of(EMPTY, EMPTY, ClientNetworkError("x")).find([(T0, 5)])


def test_a_segment_that_was_deleted_since_is_looked_for_at_the_leader(tmp_path: Path) -> None:
    tier = two_segments()
    uri = write_tier(tier, tmp_path)
    with open_context(options(uri)) as context:
        partitions = make_survey(context).partitions
        for path in tmp_path.rglob("*.index"):
            path.unlink()
        assert BatchLookup(context, partitions).find([(O0, 5)]) == {}
