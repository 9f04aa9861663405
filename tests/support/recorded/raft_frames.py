"""Recorded frames of the quorum's own APIs."""

from __future__ import annotations

from crabka.protocol.apis import ApiKey
from tests.support.recorded.wire_frames import RecordedFrame, recorded_frames

RAFT_KEYS = (
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.FETCH,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.DESCRIBE_QUORUM,
)


def raft_frames(*, requests: bool) -> list[RecordedFrame]:
    """Return the recorded requests or responses of the quorum, no fetches of other topics."""
    return [
        frame
        for frame in recorded_frames()
        if frame.is_request is requests and frame.api_key in RAFT_KEYS and "quorum.jsonl" in frame.source
    ]
