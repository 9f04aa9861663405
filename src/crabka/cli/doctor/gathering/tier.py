"""The remote tier by its metadata topic, its storage if that can be opened from here, and the metrics of brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from crabka.cli.doctor.checks.tier import TieredPartition, TierFacts
from crabka.cli.doctor.finding import NotApplicableError
from crabka.cli.doctor.gathering.overview import Overview
from crabka.cli.tier.status import status_rows
from crabka.clients.admin.admin import Admin
from crabka.clients.cluster.cluster import Cluster
from crabka.errors import CrabkaError
from crabka.ids import TopicPartition
from crabka.remote_topic.settings import METADATA_TOPIC
from crabka.remote_topic.tier_view import TierView

if TYPE_CHECKING:
    from crabka.remote.listing import TierObject
    from crabka.remote.scrub import TierFault
    from crabka.remote.storage_manager import RemoteStorageManager

# Time that a copy or a deletion may take before its leftovers count.
_GRACE_MS: Final = 3_600_000


class SilentProgress:
    """Receives the progress of a check of a tier and shows nothing."""

    def metadata(self, done: int, total: int) -> None:
        """Events were read."""

    def objects(self, listed: Iterable[TierObject]) -> Iterator[TierObject]:
        """Pass objects on."""
        yield from listed

    def begin_contents(self, byte_count: int) -> None:
        """Segments are read from now on."""

    def contents(self, byte_count: int) -> None:
        """Bytes were read."""


async def gather_tier(
    cluster: Cluster, overview: Overview, failures: Mapping[str, int] | None, tier_url: str | None
) -> TierFacts:
    """Return the facts about all tiered partitions. Raises NotApplicableError if nothing is tiered."""
    if METADATA_TOPIC not in overview.topics:
        raise NotApplicableError("no topic is tiered")
    view = TierView(cluster)
    await view.read_on()
    partitions = [
        TieredPartition(
            TopicPartition(row["topic"], row["partition"]), row["lag_bytes"], row["lag_segments"], row["beyond_end"]
        )
        for row in await status_rows(Admin(cluster), view)
    ]
    if not partitions:
        raise NotApplicableError("no topic is tiered")
    faults, unread = await _look_into(cluster, tier_url)
    return TierFacts(partitions, faults, unread, failures, tier_url)


async def _look_into(cluster: Cluster, tier_url: str | None) -> tuple[Sequence[TierFault] | None, str]:
    """Compare the objects of the storage with the metadata; return why not if that is not possible."""
    from crabka.remote_topic.tier_check import CheckOptions, TierCheck

    storage: RemoteStorageManager | None = None
    try:
        storage = await _open(Admin(cluster), tier_url)
        result = await TierCheck(TierView(cluster), storage, CheckOptions(grace_ms=_GRACE_MS)).run(SilentProgress())
    except (CrabkaError, OSError) as error:
        return None, str(error)
    finally:
        if storage is not None:
            storage.close()
    return result.faults, ""


async def _open(admin: Admin, tier_url: str | None) -> RemoteStorageManager:
    """Open the storage of an address, or the one that brokers publish. Raises ConfigError."""
    from crabka.cli.tier.storage import open_published_storage, open_storage

    return open_storage(tier_url, None) or await open_published_storage(admin)
