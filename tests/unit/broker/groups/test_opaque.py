"""Groups that are only kept."""

from __future__ import annotations

from crabka.broker.groups.opaque import KEY_TYPES, OpaqueGroup, OpaqueType


def test_the_kinds_of_records_are_known() -> None:
    assert KEY_TYPES[10] == (OpaqueType.SHARE, "MemberMetadata")
    assert KEY_TYPES[11] == (OpaqueType.SHARE, "Metadata")
    assert KEY_TYPES[17] == (OpaqueType.STREAMS, "Metadata")
    assert not {*range(9), 16} & set(KEY_TYPES)


def test_members_and_existence_follow_the_records() -> None:
    group = OpaqueGroup("g", OpaqueType.SHARE)
    assert not group.exists
    for _ in range(2):
        group.replay(b"g", "Metadata", deleted=False)
        group.replay(b"m", "MemberMetadata", deleted=False)
    assert group.exists
    assert not group.is_empty
    for _ in range(2):
        group.replay(b"m", "MemberMetadata", deleted=True)
    assert group.is_empty
    assert list(group.keys) == [b"g"]
