"""What a plan asks: the cluster, if there is one, and the tier, if it is to be read; opened once per plan."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from crabka.errors import ConfigError
from crabka.spark.broker_session import BrokerSession
from crabka.spark.plan.segment_objects import SegmentObjects
from crabka.spark.plan.tier_address import ask_tier_uri
from crabka.spark.source.options import SourceOptions
from crabka.spark.tier_store import open_tier_store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlanContext:
    """Options and whom to ask. `objects` is None where only brokers are read."""

    options: SourceOptions
    session: BrokerSession | None
    objects: SegmentObjects | None


@contextmanager
def open_context(options: SourceOptions) -> Iterator[PlanContext]:
    """Connect to what the options name. Raises ConfigError, ClientNetworkError."""
    with ExitStack() as stack:
        session = None
        if options.bootstrap is not None:
            session = stack.enter_context(BrokerSession(options.bootstrap, options.client))
        yield PlanContext(options, session, _objects(options, session))


def tier_address(options: SourceOptions, session: BrokerSession | None) -> str | None:
    """Return where the tier is; None if only brokers are to be read. Raises ConfigError if it must be named."""
    if options.read_mode == "broker":
        return None
    uri = options.tier_uri
    if uri is None and session is not None:
        uri = ask_tier_uri(session)
    if uri is None and options.read_mode == "tier":
        raise ConfigError("read.mode=tier needs tier.uri, which this cluster does not tell")
    return uri


def _objects(options: SourceOptions, session: BrokerSession | None) -> SegmentObjects | None:
    uri = tier_address(options, session)
    if uri is None:
        if options.read_mode == "auto":
            _log.info("the cluster does not tell where its tier is: brokers serve everything; tier.uri changes that")
        return None
    return SegmentObjects(open_tier_store(uri, options.storage))
