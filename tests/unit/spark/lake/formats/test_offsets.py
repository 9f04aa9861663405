from __future__ import annotations

import pytest

from crabka.spark.lake.errors import LakeError
from crabka.spark.lake.formats.offsets import (
    Settlement,
    app_id,
    check_rewind,
    check_step,
    decode_offsets,
    decode_witnesses,
    encode_offsets,
    encode_witnesses,
    lag,
    settle,
)
from crabka.spark.plan.history.witnesses import BatchWitness


def test_offsets_survive_their_text() -> None:
    offsets = {10: 5, 2: 1 << 62, 0: 0}
    assert decode_offsets(encode_offsets(offsets)) == offsets
    assert encode_offsets(offsets) == '{"0":0,"2":4611686018427387904,"10":5}'


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":1}', '{"1":"x"}', '{"1":null}'])
def test_a_text_that_holds_no_offsets_is_refused(text: str) -> None:
    with pytest.raises(LakeError, match="cannot be read"):
        decode_offsets(text)


def test_topics_of_the_same_name_have_different_applications() -> None:
    assert app_id("abc", 1) == "crabka:abc:1"
    assert app_id("abc", 1) != app_id("abd", 1)


@pytest.mark.parametrize(("before", "after"), [({}, {}), ({}, {0: 5, 1: 0}), ({0: 5}, {0: 5}), ({0: 5}, {0: 6, 1: 2})])
def test_a_step_forward_is_fine(before: dict[int, int], after: dict[int, int]) -> None:
    check_step(before, after)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [({0: 5}, {0: 4}, "back"), ({0: 5, 1: 1}, {0: 6}, "lacks"), ({}, {1: 5}, "not all from 0")],
)
def test_any_other_step_is_refused(before: dict[int, int], after: dict[int, int], reason: str) -> None:
    with pytest.raises(LakeError, match=reason):
        check_step(before, after)


@pytest.mark.parametrize(
    ("current", "live", "settlement"),
    [
        ({0: 5}, ["ours"], Settlement.LANDED),
        ({0: 9}, ["ours", "later"], Settlement.LANDED),
        ({0: 3}, ["old"], Settlement.RETRY),
        ({0: 5}, ["theirs"], Settlement.SUPERSEDED),
        ({0: 3, 1: 0}, [], Settlement.SUPERSEDED),
    ],
)
def test_a_failed_commit_is_settled_by_what_the_table_has(
    current: dict[int, int], live: list[str], settlement: Settlement
) -> None:
    assert settle({0: 3}, current, ["ours"], live) is settlement


def test_lag_counts_from_the_start_where_nothing_is_committed_and_is_never_negative() -> None:
    assert lag({0: 7, 1: 9}, {0: 10, 1: 8, 2: 4}) == {0: 3, 1: 0, 2: 4}


def test_witnesses_survive_their_text() -> None:
    witnesses = {0: (BatchWitness(1, 2, 3, 4, 5, 6),), 7: ()}
    assert decode_witnesses(encode_witnesses(witnesses)) == witnesses
    assert decode_witnesses(None) == {}
    for text in ("", "[]", '{"0":[[1]]}'):
        with pytest.raises(LakeError, match="cannot be read"):
            decode_witnesses(text)


def test_a_rewind_only_moves_back() -> None:
    check_rewind({0: 5, 1: 3}, {0: 5, 1: 0})
    for after in ({0: 6, 1: 3}, {0: 5}, {0: 5, 1: 3, 2: 0}):
        with pytest.raises(LakeError):
            check_rewind({0: 5, 1: 3}, after)
