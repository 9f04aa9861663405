"""What most checks start from: the brokers, the topics, and the settings of both."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from crabka.cli.doctor.finding import NotApplicableError, brokers
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.admin_types import ConfigOwner, ConfigValue, ResourceType
from crabka.clients.cluster.cluster import Cluster
from crabka.clients.cluster.metadata import BrokerEndpoint, TopicMetadata
from crabka.clients.errors import ClientNetworkError
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode

# Present in every Crabka broker, and in no other.
OWN_SETTING: Final = "crabka.http.listener"
_TOPICS_AT_ONCE: Final = 200

Configs = Mapping[str, ConfigValue]


@dataclass(frozen=True, slots=True)
class Overview:
    """A cluster at one moment."""

    cluster_id: str
    # Registered brokers; those that are fenced may have no address.
    brokers: Sequence[BrokerEndpoint]
    fenced: frozenset[int]
    topics: Mapping[str, TopicMetadata]
    # Settings of the brokers that answered.
    configs: Mapping[int, Configs]
    # Active brokers that did not.
    unreachable: Sequence[int]

    @property
    def active(self) -> list[BrokerEndpoint]:
        """The brokers that serve, by id."""
        return sorted(each for each in self.brokers if each.node_id not in self.fenced)

    @property
    def reachable(self) -> list[int]:
        """The ids of active brokers that this machine can connect to."""
        return [each.node_id for each in self.active if each.node_id not in self.unreachable]

    @property
    def is_crabka(self) -> bool:
        """Whether the brokers are Crabka rather than Apache Kafka."""
        return any(OWN_SETTING in configs for configs in self.configs.values())

    def require_coordinators(self) -> None:
        """Raise NotApplicableError if a broker that may coordinate groups and transactions cannot be reached."""
        if self.unreachable:
            raise NotApplicableError(f"{brokers(self.unreachable)} cannot be reached, and may be a coordinator")

    def broker_setting(self, name: str) -> dict[int, str]:
        """Return a setting of each broker that has a value for it."""
        found = {broker: configs.get(name) for broker, configs in self.configs.items()}
        return {broker: each.value for broker, each in found.items() if each is not None and each.value}


async def gather_overview(cluster: Cluster) -> Overview:
    """Return the overview.

    Raises ClientNetworkError if no bootstrap server answers, and OperationError, also where this user may not see the
    settings of brokers: most checks need them.
    """
    admin = Admin(cluster)
    topics = await admin.list_topics()
    described = await admin.cluster.describe(include_fenced=True)
    active = [each.node_id for each in described.brokers if each.node_id not in described.fenced]
    found = await asyncio.gather(*(_broker_configs(admin, broker) for broker in active))
    configs = dict(zip(active, found, strict=True))
    unreachable = [broker for broker, each in configs.items() if each is None]
    known = {broker: each for broker, each in configs.items() if each is not None}
    known |= await _over_bootstrap(admin, unreachable)
    return Overview(described.cluster_id, described.brokers, described.fenced, topics, known, sorted(unreachable))


def is_refusal(error: BaseException) -> bool:
    """Return whether a broker or controller answered that this user lacks a permission on the cluster."""
    return isinstance(error, OperationError) and error.error_code is ErrorCode.cluster_authorization_failed


async def topic_configs(admin: Admin, names: Sequence[str], keys: Sequence[str]) -> dict[str, Configs]:
    """Return settings of topics; topics that were deleted since are missing."""
    found: dict[str, Configs] = {}
    for start in range(0, len(names), _TOPICS_AT_ONCE):
        owners = [ConfigOwner(ResourceType.TOPIC, name) for name in names[start : start + _TOPICS_AT_ONCE]]
        answers = await admin.describe_configs_of(owners, keys)
        found |= {owner.name: answer for owner, answer in answers.items() if not isinstance(answer, OperationError)}
    return found


async def _broker_configs(admin: Admin, broker: int) -> Configs | None:
    try:
        return await admin.describe_configs(ConfigOwner(ResourceType.BROKER, str(broker)))
    except OperationError as error:
        if is_refusal(error):
            raise
        return None
    except ClientNetworkError:
        return None


async def _over_bootstrap(admin: Admin, brokers: Sequence[int]) -> dict[int, Configs]:
    """Return settings of brokers whose address does not answer, if the bootstrap server is one of them."""
    found: dict[int, Configs] = {}
    for broker in brokers:
        owner = ConfigOwner(ResourceType.BROKER, str(broker))
        answer = (await admin.describe_configs_of([owner]))[owner]
        if not isinstance(answer, OperationError):
            found[broker] = answer
    return found
