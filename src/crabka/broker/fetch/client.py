"""Who fetches: a consumer, or a follower, and what that means for what it may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crabka.config.java_classes import RACK_AWARE_SELECTOR

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig

READ_COMMITTED = 1
CONSUMER_ID = -1
FIRST_VERSION_WITH_RACK = 11
FIRST_VERSION_WITH_REPLICA_STATE = 15


class FetchClient(NamedTuple):
    """The sender of a Fetch, with those of its settings that hold for all partitions."""

    # Below 0 for consumers.
    replica_id: int = CONSUMER_ID
    broker_epoch: int = -1
    # A consumer that is not to see records of open and aborted transactions.
    is_committed_only: bool = False
    # Where a consumer is; empty if it does not say so or nobody would mind (KIP-392).
    rack: str = ""
    # Consumers since version 11 may read from followers.
    reads_followers: bool = False


# The usual ones: consumers whose rack nobody minds, by what they may see and whether they read from followers.
_CONSUMERS = {
    (committed_only, reads_followers): FetchClient(is_committed_only=committed_only, reads_followers=reads_followers)
    for committed_only in (False, True)
    for reads_followers in (False, True)
}


def fetch_client(body: Any, version: int, config: ServerConfig) -> FetchClient:
    """Return the sender of a Fetch request."""
    replica_id, broker_epoch = replica_of(body, version)
    reads_followers = version >= FIRST_VERSION_WITH_RACK
    is_committed_only = body.isolation_level == READ_COMMITTED
    if replica_id >= 0:
        return FetchClient(replica_id, broker_epoch)
    if config.replica_selector_class is None or not reads_followers:
        return _CONSUMERS[is_committed_only, reads_followers]
    rack = body.rack_id if selects_by_rack(config) else ""
    return FetchClient(CONSUMER_ID, -1, is_committed_only, rack, reads_followers)


def replica_of(body: Any, version: int) -> tuple[int, int]:
    """Return id and epoch of the broker that fetches, -1 for a consumer (KIP-903)."""
    if version < FIRST_VERSION_WITH_REPLICA_STATE:
        return body.replica_id, -1
    state = body.replica_state
    return state.replica_id, state.replica_epoch


def selects_by_rack(config: ServerConfig) -> bool:
    """Return whether consumers are sent to the replicas of their rack."""
    return config.replica_selector_class == RACK_AWARE_SELECTOR
