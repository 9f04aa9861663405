"""Committed offsets."""

from __future__ import annotations

from crabka.broker.groups.offsets import CommittedOffset, OffsetStore

PLACE = ("t", 0)


def offset(value: int, **fields: int) -> CommittedOffset:
    return CommittedOffset(value, -1, "", fields.get("at", 0), fields.get("expires", -1))


def test_the_last_commit_counts() -> None:
    store = OffsetStore()
    store.put("g", PLACE, offset(1))
    store.put("g", PLACE, offset(2))
    assert store.get("g", PLACE) == offset(2)
    assert store.get("g", ("t", 1)) is None
    assert store.get("x", PLACE) is None
    store.delete("g", PLACE)
    store.delete("g", PLACE)
    assert store.of_group("g") == {}


def test_offsets_of_a_transaction_count_when_it_commits() -> None:
    store = OffsetStore()
    store.put("g", PLACE, offset(1))
    store.put_pending(7, "g", PLACE, offset(2))
    assert store.get("g", PLACE) == offset(1)
    assert store.is_pending("g", PLACE)
    assert store.has_pending("g")
    store.complete(7, commit=True)
    assert store.get("g", PLACE) == offset(2)
    assert not store.is_pending("g", PLACE)


def test_offsets_of_an_aborted_transaction_never_count() -> None:
    store = OffsetStore()
    store.put_pending(7, "g", PLACE, offset(2))
    store.complete(7, commit=False)
    assert store.get("g", PLACE) is None
    store.complete(8, commit=True)


def test_a_plain_commit_comes_after_a_pending_one() -> None:
    store = OffsetStore()
    store.put_pending(7, "g", PLACE, offset(2))
    store.put("g", PLACE, offset(3))
    store.complete(7, commit=True)
    assert store.get("g", PLACE) == offset(3)


def test_a_pending_commit_stays_pending_after_a_plain_one() -> None:
    store = OffsetStore()
    store.put_pending(7, "g", PLACE, offset(2))
    store.put("g", PLACE, offset(3))
    assert store.is_pending("g", PLACE)
    store.put_pending(7, "g", PLACE, offset(4))
    store.complete(7, commit=True)
    assert store.get("g", PLACE) == offset(4)
    assert not store.has_pending("g")


def test_of_two_transactions_the_later_record_counts() -> None:
    store = OffsetStore()
    store.put_pending(7, "g", PLACE, offset(2))
    store.put_pending(8, "g", PLACE, offset(3))
    store.complete(8, commit=True)
    store.complete(7, commit=True)
    assert store.get("g", PLACE) == offset(3)
    store.put_pending(7, "g", PLACE, offset(4))
    store.put_pending(8, "g", PLACE, offset(5))
    store.complete(7, commit=True)
    assert store.get("g", PLACE) == offset(4)
    store.complete(8, commit=True)
    assert store.get("g", PLACE) == offset(5)


def test_an_aborted_transaction_supersedes_nothing() -> None:
    store = OffsetStore()
    store.put_pending(7, "g", PLACE, offset(2))
    store.put_pending(8, "g", PLACE, offset(3))
    store.complete(8, commit=False)
    store.complete(7, commit=True)
    assert store.get("g", PLACE) == offset(2)


def test_pending_offsets_belong_to_their_group() -> None:
    store = OffsetStore()
    store.put("g", PLACE, offset(1))
    store.put_pending(7, "g", ("u", 1), offset(2))
    assert store.places_of_group("g") == [PLACE, ("u", 1)]
    assert list(store.of_topics({"u"})) == [("g", ("u", 1))]
    pending = store.pending_of_group("g")
    for place in store.places_of_group("g"):
        store.delete("g", place)
    assert not store.places_of_group("g")
    store.restore_pending("g", pending)
    store.complete(7, commit=True)
    assert store.get("g", ("u", 1)) == offset(2)


def test_a_deleted_offset_is_not_brought_back_by_a_marker() -> None:
    store = OffsetStore()
    store.put_pending(7, "g", PLACE, offset(2))
    store.delete("g", PLACE)
    store.complete(7, commit=True)
    assert store.get("g", PLACE) is None


def test_offsets_of_topics_are_found() -> None:
    store = OffsetStore()
    store.put("g", PLACE, offset(1))
    store.put("h", ("u", 1), offset(1))
    assert list(store.of_topics({"u"})) == [("h", ("u", 1))]


def test_old_offsets_expire_and_pending_ones_do_not() -> None:
    store = OffsetStore()
    store.put("g", PLACE, offset(1, at=100))
    store.put("g", ("t", 1), offset(1, at=150))
    store.put("g", ("t", 2), offset(1, at=100))
    store.put_pending(1, "g", ("t", 2), offset(1))
    store.put("g", ("kept", 0), offset(1, at=0))
    store.put("g", ("t", 3), offset(1, at=199, expires=200))
    store.put("g", ("t", 4), offset(1, at=0, expires=201))

    def base(topic: str, committed: CommittedOffset) -> int | None:
        return None if topic == "kept" else committed.commit_timestamp_ms

    assert store.expired("g", base, 200, 100) == [PLACE, ("t", 3)]
