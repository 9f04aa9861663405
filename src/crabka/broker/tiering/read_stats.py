"""Names under which remote reads are counted: those of Kafka's BrokerTopicMetrics and RemoteLogManager."""

from __future__ import annotations

from typing import Final

# Counters by topic.
REMOTE_FETCH_BYTES: Final = "RemoteFetchBytesPerSec"
REMOTE_FETCH_REQUESTS: Final = "RemoteFetchRequestsPerSec"
REMOTE_FETCH_ERRORS: Final = "RemoteFetchErrorsPerSec"
BUILD_AUX_STATE_REQUESTS: Final = "BuildRemoteLogAuxStateRequestsPerSec"
BUILD_AUX_STATE_ERRORS: Final = "BuildRemoteLogAuxStateErrorsPerSec"
# Fetches that got nothing because the tier did not answer in time (DelayedRemoteFetchMetrics).
REMOTE_FETCH_EXPIRES: Final = "ExpiresPerSec"
