"""Groups that this node stores but does not run: share (KIP-932) and streams (KIP-1071) groups.

Their records stay in the log. The node knows only their live keys, which is enough to list such a group and to
remove it.
"""

from __future__ import annotations

from enum import Enum

from crabka.protocol.generated.index import MESSAGES


class OpaqueType(Enum):
    """Kinds of groups, by the names that clients see; also used as protocol type."""

    SHARE = "share"
    STREAMS = "streams"


# By type of key: the kind of group, and the name of the record.
KEY_TYPES: dict[int, tuple[OpaqueType, str]] = {
    entry.api_key: (kind, entry.name.removeprefix(prefix).removesuffix("Key"))
    for kind, prefix in (
        (OpaqueType.SHARE, "ShareGroup"),
        (OpaqueType.STREAMS, "StreamsGroup"),
    )
    for entry in MESSAGES
    if entry.kind == "coordinator-key" and entry.name.startswith(prefix) and entry.api_key is not None
}
GROUP_RECORD = "Metadata"
MEMBER_RECORD = "MemberMetadata"


class OpaqueGroup:
    """The live keys of a group's records."""

    __slots__ = ("group_id", "group_type", "keys", "member_count", "metadata_count")

    def __init__(self, group_id: str, group_type: OpaqueType) -> None:
        self.group_id = group_id
        self.group_type = group_type
        # In the order of the log, in which tombstones are written.
        self.keys: dict[bytes, None] = {}
        self.member_count = 0
        self.metadata_count = 0

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return self.member_count == 0

    @property
    def exists(self) -> bool:
        """Return whether the group has its own record, without which the others mean nothing."""
        return self.metadata_count > 0

    def replay(self, key: bytes, record: str, *, deleted: bool) -> None:
        """Apply a record: its key, its name, and whether it is a tombstone."""
        if deleted == (key not in self.keys):
            return
        change = -1 if deleted else 1
        if deleted:
            del self.keys[key]
        else:
            self.keys[key] = None
        if record == MEMBER_RECORD:
            self.member_count += change
        elif record == GROUP_RECORD:
            self.metadata_count += change
