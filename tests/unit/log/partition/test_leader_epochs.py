from __future__ import annotations

from crabka.log.partition.leader_epochs import LeaderEpochCache

LOG_END = 200


def cache() -> LeaderEpochCache:
    return LeaderEpochCache([(1, 0), (3, 50), (4, 120)])


def test_assigning_keeps_epochs_and_offsets_rising() -> None:
    epochs = cache()
    epochs.assign(4, 150)
    epochs.assign(2, 150)
    assert epochs.entries == [(1, 0), (3, 50), (4, 120)]
    epochs.assign(6, 100)
    assert epochs.entries == [(1, 0), (3, 50), (6, 100)]
    assert epochs.latest == 6


def test_an_epoch_without_records_gives_way() -> None:
    epochs = LeaderEpochCache([(1, 0), (2, 10)])
    epochs.assign(3, 10)
    assert epochs.entries == [(1, 0), (3, 10)]


def test_truncating_the_end_drops_epochs_that_began_there() -> None:
    epochs = cache()
    epochs.truncate_from_end(120)
    assert epochs.entries == [(1, 0), (3, 50)]
    assert epochs.latest == 3
    epochs.truncate_from_end(0)
    assert epochs.entries == []
    assert epochs.latest == -1


def test_truncating_the_start_moves_the_first_entry_as_kafka_does() -> None:
    epochs = LeaderEpochCache([(0, 0), (2, 120)])
    epochs.truncate_from_start(53)
    assert epochs.encode() == b"0\n2\n0 53\n2 120\n"
    epochs.truncate_from_start(120)
    assert epochs.entries == [(2, 120)]
    epochs.truncate_from_start(10)
    assert epochs.entries == [(2, 120)]


def test_only_changes_make_the_cache_dirty() -> None:
    epochs = cache()
    assert not epochs.dirty
    epochs.assign(4, 150)
    epochs.truncate_from_end(LOG_END)
    epochs.truncate_from_start(0)
    assert not epochs.dirty
    epochs.clear()
    assert epochs.dirty


def test_the_text_for_the_tier_holds_the_epochs_below_the_end() -> None:
    cache = LeaderEpochCache([(1, 0), (3, 10), (4, 20)])
    assert cache.encode(20) == b"0\n2\n1 0\n3 10\n"
    assert cache.encode(21) == cache.encode()
    assert cache.encode(0) == b"0\n0\n"
