"""Offsets that members may commit and fetch."""

from __future__ import annotations

import pytest

from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import ConsumerCore, topic_id

T = topic_id(0)


def test_a_member_of_an_older_epoch_commits_only_what_it_has_had_since() -> None:
    core = ConsumerCore()
    first = core.beat("a", 0).member_epoch
    core.beat("b", 0)
    half = {T: frozenset({0, 1})}
    core.beat("a", first, owned={T: frozenset(range(4))})
    newer = core.beat("a", first, owned=half).member_epoch
    assert newer > first
    old = core.group.offset_checks.commit("a", first, 9)
    assert old.error_of("t", 0) is ErrorCode.none
    assert old.error_of("t", 3) is ErrorCode.stale_member_epoch
    assert old.error_of("gone", 0) is ErrorCode.stale_member_epoch
    assert core.group.offset_checks.commit("a", newer, 9).error_of("t", 3) is ErrorCode.none


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "expected"),
    [
        ("who", 2, 9, ErrorCode.unknown_member_id),
        ("a", 99, 9, ErrorCode.stale_member_epoch),
        ("a", 2, 8, ErrorCode.unsupported_version),
        ("", -1, 9, ErrorCode.unknown_member_id),
    ],
)
def test_commits_of_others_are_refused(member_id: str, epoch: int, version: int, expected: ErrorCode) -> None:
    core = ConsumerCore()
    core.beat("a", 0)
    with pytest.raises(OperationError) as refused:
        core.group.offset_checks.commit(member_id, epoch, version)
    assert refused.value.error_code is expected


def test_without_members_anybody_may_commit() -> None:
    core = ConsumerCore()
    assert core.group.offset_checks.commit("", -1, 2).error_of("t", 0) is ErrorCode.none


def test_offsets_are_reported_to_members_that_are_up_to_date() -> None:
    core = ConsumerCore()
    epoch = core.beat("a", 0).member_epoch
    core.group.offset_checks.fetch(None, -1)
    core.group.offset_checks.fetch("a", epoch)
    for member_id, asked, expected in (
        ("a", epoch + 1, ErrorCode.stale_member_epoch),
        ("who", epoch, ErrorCode.unknown_member_id),
    ):
        with pytest.raises(OperationError) as refused:
            core.group.offset_checks.fetch(member_id, asked)
        assert refused.value.error_code is expected
