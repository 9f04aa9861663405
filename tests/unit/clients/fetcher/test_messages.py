"""Fetch requests and answers in versions with names and with ids."""

from __future__ import annotations

import uuid

import pytest

from crabka.clients.fetcher.fetcher import FetcherSettings
from crabka.clients.fetcher.isolation import AbortedSpan
from crabka.clients.fetcher.messages import DivergingEpoch, FetchAnswer, FetchTarget, fetch_request, read_answers
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey, encode_request, ms, read_request, request_types, response_types
from crabka.protocol.error_codes import ErrorCode

TOPIC_ID = uuid.UUID(int=5)
TARGETS = [FetchTarget(TopicPartition("a", 0), 40, 3), FetchTarget(TopicPartition("a", 2), 7, -1)]


@pytest.mark.parametrize("version", [4, 12, 13, 17, 18])
def test_request_carries_limits_and_positions(version: int) -> None:
    request = fetch_request(TARGETS, FetcherSettings(max_wait_ms=77, read_committed=True), {"a": TOPIC_ID})
    encoded = encode_request(request.body(request_types(ApiKey.FETCH, version)))
    body = read_request(ApiKey.FETCH, version, encoded)
    assert (ms(body.max_wait), body.isolation_level) == (77, 1)
    (topic,) = body.topics
    assert getattr(topic, "topic", "a") == "a"
    assert getattr(topic, "topic_id", TOPIC_ID) == TOPIC_ID
    assert [(p.partition, p.fetch_offset) for p in topic.partitions] == [(0, 40), (2, 7)]
    assert getattr(body, "session_epoch", -1) == -1


def test_topic_without_id_limits_the_version() -> None:
    assert fetch_request(TARGETS, FetcherSettings(), {}).max_version == 12
    assert fetch_request(TARGETS, FetcherSettings(), {"a": TOPIC_ID}).max_version is None


@pytest.mark.parametrize("version", [4, 12, 13, 17])
def test_answers_are_read_in_every_version(version: int) -> None:
    types = response_types(ApiKey.FETCH, version)
    data = types.new(
        "PartitionData",
        partition_index=2,
        error_code=ErrorCode.none,
        high_watermark=50,
        last_stable_offset=49,
        log_start_offset=-1,
        aborted_transactions=[types.new("AbortedTransaction", producer_id=8, first_offset=41)],
        records=None,
    )
    topic = types.new("FetchableTopicResponse", topic="a", topic_id=TOPIC_ID, partitions=[data])
    response = types.message(throttle_time=0, error_code=ErrorCode.none, session_id=0, responses=[topic])
    expected = FetchAnswer(ErrorCode.none, 50, -1, (AbortedSpan(8, 41),), b"", 49)
    assert read_answers(response, {"a": TOPIC_ID}) == {TopicPartition("a", 2): expected}


def test_answer_about_an_unknown_topic_id_is_ignored() -> None:
    types = response_types(ApiKey.FETCH, 13)
    topic = types.new("FetchableTopicResponse", topic_id=TOPIC_ID, partitions=[])
    response = types.message(throttle_time=0, error_code=ErrorCode.none, session_id=0, responses=[topic])
    assert read_answers(response, {}) == {}


def test_the_last_fetched_epoch_goes_out_where_the_version_has_it() -> None:
    request = fetch_request([FetchTarget(TopicPartition("a", 0), 40, 3, 2)], FetcherSettings(), {"a": TOPIC_ID})
    for version, epoch in [(11, None), (12, 2), (17, 2)]:
        encoded = encode_request(request.body(request_types(ApiKey.FETCH, version)))
        (topic,) = read_request(ApiKey.FETCH, version, encoded).topics
        assert getattr(topic.partitions[0], "last_fetched_epoch", None) == epoch


def test_another_history_of_the_leader_is_read() -> None:
    types = response_types(ApiKey.FETCH, 13)
    data = types.new(
        "PartitionData",
        partition_index=2,
        error_code=ErrorCode.none,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        diverging_epoch=types.new("EpochEndOffset", epoch=4, end_offset=17),
        aborted_transactions=[],
        records=None,
    )
    topic = types.new("FetchableTopicResponse", topic_id=TOPIC_ID, partitions=[data])
    response = types.message(throttle_time=0, error_code=ErrorCode.none, session_id=0, responses=[topic])
    (answer,) = read_answers(response, {"a": TOPIC_ID}).values()
    assert answer.diverging == DivergingEpoch(4, 17)
