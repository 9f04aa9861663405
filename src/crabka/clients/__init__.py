"""Clients of a Kafka cluster: an async core (Cluster, Producer, Fetcher, Admin) and a blocking facade."""

from __future__ import annotations

from crabka.clients.accumulator import RecordMetadata
from crabka.clients.admin import Admin
from crabka.clients.admin_types import ConfigChange, ConfigOperation, ConfigOwner, NewTopic, ResourceType
from crabka.clients.cluster import Cluster, ClusterSettings
from crabka.clients.connection import Connection, ConnectionSettings
from crabka.clients.errors import ClientClosedError, ClientNetworkError, RequestTimeoutError, VersionMismatchError
from crabka.clients.fetcher import FetchedRecord, Fetcher, FetcherSettings, OffsetReset
from crabka.clients.group_types import GroupDescription, GroupListing, GroupMember, GroupOffset
from crabka.clients.producer import Producer, ProducerSettings
from crabka.clients.sync import SyncAdmin, SyncFetcher, SyncProducer

__all__ = [
    "Admin",
    "ClientClosedError",
    "ClientNetworkError",
    "Cluster",
    "ClusterSettings",
    "ConfigChange",
    "ConfigOperation",
    "ConfigOwner",
    "Connection",
    "ConnectionSettings",
    "FetchedRecord",
    "Fetcher",
    "FetcherSettings",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupOffset",
    "NewTopic",
    "OffsetReset",
    "Producer",
    "ProducerSettings",
    "RecordMetadata",
    "RequestTimeoutError",
    "ResourceType",
    "SyncAdmin",
    "SyncFetcher",
    "SyncProducer",
    "VersionMismatchError",
]
