from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabka.errors import ConfigError
from crabka.records.builder import build_batch
from crabka.records.header import DELETE_HORIZON_FLAG, BatchHeader, parse_header
from crabka.records.record import Record
from crabka.spark.plan.history.witnesses import (
    MAX_CHAIN,
    BatchWitness,
    HistoryVerdict,
    chains_from_json,
    chains_to_json,
    cut_chain,
    extended,
    judge,
    sample_offsets,
)


def header(
    *, base: int = 10, count: int = 5, epoch: int = 3, timestamp: int = 1000, value: bytes = b"v"
) -> BatchHeader:
    records = [Record(index, timestamp + index, b"key", value) for index in range(count)]
    return parse_header(build_batch(records, base_offset=base, leader_epoch=epoch))


def at(last_offset: int) -> BatchWitness:
    return BatchWitness(last_offset, last_offset, 0, last_offset * 7, 0, 1)


def test_the_same_batch_is_the_same() -> None:
    assert judge(BatchWitness.of(header()), header()) is HistoryVerdict.SAME


@pytest.mark.parametrize(
    "found",
    [
        header(value=b"other"),
        header(timestamp=2000),
        header(epoch=4),
        header(base=9, count=6),
        header(base=12, count=3),
        header(count=6),
    ],
)
def test_another_batch_at_the_same_offset_is_different(found: BatchHeader) -> None:
    assert judge(BatchWitness.of(header()), found) is HistoryVerdict.DIFFERENT


def test_what_compaction_rewrote_or_removed_is_unknown() -> None:
    witness = BatchWitness.of(header())
    assert judge(witness, header()._replace(crc=1, records_count=2, max_timestamp=1001)) is HistoryVerdict.UNKNOWN
    assert judge(witness, header()._replace(crc=1, attributes=DELETE_HORIZON_FLAG)) is HistoryVerdict.UNKNOWN
    assert judge(witness, header(base=15)) is HistoryVerdict.UNKNOWN
    assert judge(witness, None) is HistoryVerdict.UNKNOWN


def test_a_compacted_batch_of_another_history_is_different() -> None:
    witness = BatchWitness.of(header())
    assert judge(witness, header()._replace(crc=1, records_count=2, max_timestamp=9999)) is HistoryVerdict.DIFFERENT
    assert (
        judge(witness, header()._replace(crc=1, records_count=2, partition_leader_epoch=4)) is HistoryVerdict.DIFFERENT
    )
    compacted = witness._replace(records_count=2)
    assert judge(compacted, header()._replace(crc=1, records_count=3)) is HistoryVerdict.DIFFERENT


def test_samples_end_with_the_last_offset() -> None:
    assert sample_offsets(0, 3000) == [750, 1500, 2250, 2625, 2999]
    assert sample_offsets(7, 8) == [7]
    assert sample_offsets(5, 5) == []
    assert sample_offsets(0, 3000, partition_count=5000) == [2999]


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=200, unique=True).map(sorted))
def test_a_chain_keeps_its_ends_and_stays_short(offsets: list[int]) -> None:
    chain: tuple[BatchWitness, ...] = ()
    for offset in offsets:
        chain = extended(chain, [at(offset)])
    assert [chain[0], chain[-1]] == [at(offsets[0]), at(offsets[-1])]
    assert list(chain) == sorted(chain)
    assert len(chain) == min(len(offsets), MAX_CHAIN)


def test_a_long_chain_is_dense_near_its_end() -> None:
    chain: tuple[BatchWitness, ...] = ()
    for offset in range(0, 100_000, 10):
        chain = extended(chain, [at(offset)])
    distances = [chain[-1].last_offset - witness.last_offset for witness in chain]
    # After a cut at any distance the proven part is at most a few times as far away.
    assert all(far <= 6 * near for far, near in pairwise(distances[1:-1])), distances


def test_chains_of_many_partitions_are_shorter() -> None:
    assert len(extended([at(offset) for offset in range(50)], (), partition_count=1000)) == 2


def test_a_newer_witness_replaces_that_of_the_same_offset() -> None:
    assert extended([at(5)], [at(5)._replace(crc=1)]) == (at(5)._replace(crc=1),)


def test_a_chain_is_cut_at_an_offset() -> None:
    assert cut_chain([at(3), at(9), at(10)], 10) == (at(3), at(9))


def test_chains_survive_json() -> None:
    chains = {1: (at(3),), 0: (at(4), at(9))}
    assert chains_from_json(json.loads(json.dumps(chains_to_json(chains)))) == chains


@pytest.mark.parametrize("content", [[], {"x": []}, {"0": [[1, 2]]}, {"0": 5}, {"0": [[1, 2, 3, 4, 5, "6"]]}])
def test_what_is_no_chain_is_refused(content: object) -> None:
    with pytest.raises(ConfigError):
        chains_from_json(content)
