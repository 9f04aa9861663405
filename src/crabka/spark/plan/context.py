"""What a plan asks: the cluster, if there is one, and the tier, if it is to be read; opened once per plan."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from crabka.errors import ConfigError
from crabka.spark.broker_session import BrokerSession
from crabka.spark.errors import TierElsewhereError
from crabka.spark.plan.segment_objects import SegmentObjects
from crabka.spark.plan.tier_address import ask_tier_uri
from crabka.spark.source.options import SourceOptions
from crabka.spark.tier_store import open_tier_store

_log = logging.getLogger(__name__)

_reported: set[str] = set()
"""Tiers that cannot be read and that this process has reported already."""


@dataclass(frozen=True, slots=True)
class PlanContext:
    """Options and whom to ask. `objects` is None where only brokers are read."""

    options: SourceOptions
    session: BrokerSession | None
    objects: SegmentObjects | None
    tier_uri: str | None = None


@contextmanager
def open_context(options: SourceOptions, *, with_tier: bool = True) -> Iterator[PlanContext]:
    """Connect to what the options name, to the tier only if it is wanted. Raises ConfigError, ClientNetworkError."""
    with ExitStack() as stack:
        session = None
        if options.bootstrap is not None:
            session = stack.enter_context(BrokerSession(options.bootstrap, options.client))
        uri = tier_address(options, session) if with_tier else None
        objects = None if uri is None else _open(options, uri)
        yield PlanContext(options, session, objects, None if objects is None else uri)


def is_tier_only(options: SourceOptions) -> bool:
    """Return whether no row is to come from brokers, so that partitions reach only as far as the tier does."""
    return options.bootstrap is None or options.read_mode == "tier"


def tier_address(options: SourceOptions, session: BrokerSession | None) -> str | None:
    """Return where the tier is; None if only brokers are to be read. Raises ConfigError if it must be named."""
    if options.read_mode == "broker":
        return None
    uri = options.tier_uri
    if uri is None and session is not None:
        uri = ask_tier_uri(session)
    if uri is None and options.read_mode == "tier":
        raise ConfigError("read.mode=tier needs tier.uri, which this cluster does not say")
    if uri is None:
        _log.info("brokers serve everything, since the cluster does not say where its tier is; tier.uri names it")
    return uri


def _open(options: SourceOptions, uri: str) -> SegmentObjects | None:
    """Return the objects of the tier; None if the cluster names a directory that this machine does not have.

    Brokers serve everything then, unless the options insist on the tier. Raises ConfigError.
    """
    try:
        return SegmentObjects(open_tier_store(uri, options.storage))
    except TierElsewhereError as error:
        if options.tier_uri is not None or options.read_mode != "auto":
            raise
        if uri not in _reported:
            _reported.add(uri)
            _log.warning("brokers serve everything, since the tier that the cluster names cannot be read: %s", error)
        return None
