"""Requests that are cut by topic and partition, and answers that are put together again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from crabka.embedded.edge.error_responses import error_response
from crabka.embedded.edge.rows import Selection, cut_request, merge_responses
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import build, row
from tests.support.wire.sample_requests import sample_request

IDS = {UUID(int=1): "a", UUID(int=2): "b"}


def commit(*targets: tuple[str, list[int]], version: int = 9) -> Any:
    ids = {name: topic_id for topic_id, name in IDS.items()}
    topics = [
        row(
            "OffsetCommitRequestTopic",
            name=name,
            topic_id=ids[name],
            partitions=[
                row("OffsetCommitRequestPartition", partition_index=each, committed_offset=1, committed_metadata="")
                for each in partitions
            ],
        )
        for name, partitions in targets
    ]
    return build(ApiKey.OFFSET_COMMIT, version, group_id="g", member_id="", topics=topics)


def targets_of(body: Any) -> list[tuple[str, list[int]]]:
    return [
        (getattr(topic, "name", None) or IDS[topic.topic_id], [each.partition_index for each in topic.partitions])
        for topic in (() if body is None else body.topics)
    ]


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize(
    ("selection", "selected", "rest"),
    [
        (Selection(), [("a", [0, 1]), ("b", [0])], []),
        (Selection("a"), [("a", [0, 1])], [("b", [0])]),
        (Selection("a", 1), [("a", [1])], [("a", [0]), ("b", [0])]),
        (Selection(partition=0), [("a", [0]), ("b", [0])], [("a", [1])]),
        (Selection("c"), [], [("a", [0, 1]), ("b", [0])]),
        (Selection("b", 1), [], [("a", [0, 1]), ("b", [0])]),
    ],
)
def test_a_request_is_cut_by_topic_and_partition(
    version: int, selection: Selection, selected: list[Any], rest: list[Any]
) -> None:
    body = commit(("a", [0, 1]), ("b", [0]), version=version)
    cut = cut_request(ApiKey.OFFSET_COMMIT, version, body, selection, IDS.get)
    assert (targets_of(cut.selected), targets_of(cut.rest)) == (selected, rest)


@pytest.mark.parametrize(
    ("api", "version"),
    [(ApiKey.OFFSET_FETCH, 9), (ApiKey.ADD_PARTITIONS_TO_TXN, 3), (ApiKey.CREATE_TOPICS, 7), (ApiKey.DELETE_TOPICS, 5)],
)
def test_topics_are_found_at_any_depth_and_as_plain_names(api: ApiKey, version: int) -> None:
    body = sample_request(api, version)
    assert cut_request(api, version, body, Selection("sample"), IDS.get) == (body, None)
    assert cut_request(api, version, body, Selection("other"), IDS.get) == (None, body)


def test_the_answers_to_both_parts_are_one_answer() -> None:
    body = commit(("a", [0, 1]), ("b", [0]))
    cut = cut_request(ApiKey.OFFSET_COMMIT, 9, body, Selection("a", 1), IDS.get)
    bad, good = (
        error_response(ApiKey.OFFSET_COMMIT, 9, part, code, in_rows=True)
        for part, code in ((cut.selected, ErrorCode.not_coordinator), (cut.rest, ErrorCode.none))
    )
    merged = merge_responses(good, bad)
    assert [(t.name, [(p.partition_index, int(p.error_code)) for p in t.partitions]) for t in merged.topics] == [
        ("a", [(0, 0), (1, 16)]),
        ("b", [(0, 0)]),
    ]


def test_an_answer_without_rows_stays_as_it_is() -> None:
    response = error_response(ApiKey.HEARTBEAT, 4, sample_request(ApiKey.HEARTBEAT, 4), ErrorCode.none, in_rows=False)
    assert merge_responses(response, response) is response
