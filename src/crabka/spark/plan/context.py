"""What a plan works with: the cluster, if there is one, and the tier, if it is to be read; opened once per plan.

Python's cyclic garbage collection pauses while a plan is made. A plan of 20,000 segments has no cycles, but the
collector scans all of its objects each time their number has grown by a quarter: that was a fifth of the time.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from crabka.clients.errors import ClientNetworkError
from crabka.errors import ConfigError, OperationError
from crabka.spark.access.broker_session import BrokerSession
from crabka.spark.access.tier_store import ask_tier_uri, open_tier_store
from crabka.spark.errors import TierElsewhereError
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.catalog.segment_objects import SegmentObjects

logger = logging.getLogger(__name__)
T = TypeVar("T")
_reported: set[str] = set()
"""Tiers that cannot be read and that this process has reported already."""
_lock = Lock()
_pauses = 0
# Whether the collector was at work before the first of the pauses that overlap.
_was_enabled = False


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The options and connections of a plan. `objects` is None where only brokers are read."""

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
    """Return the address of the tier; None if only brokers are read. Raises ConfigError if it must be named."""
    if options.read_mode == "broker":
        return None
    uri = options.tier_uri
    if uri is None and session is not None:
        uri = ask_tier_uri(session)
    if uri is None and options.read_mode == "tier":
        raise ConfigError("read.mode=tier needs tier.uri, which this cluster does not say")
    if uri is None:
        logger.info("brokers serve everything, since the cluster does not say where its tier is; tier.uri names it")
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
            logger.warning("brokers serve everything, since the tier that the cluster names cannot be read: %s", error)
        return None


def with_retries(options: SourceOptions, ask: Callable[[], T]) -> T:
    """Return the result of the first try that works. Raises the error of the last one."""
    for attempt in range(1, options.offset_tries + 1):
        try:
            return ask()
        except (ClientNetworkError, OperationError) as error:
            if attempt == options.offset_tries or (isinstance(error, OperationError) and not error.retriable):
                raise
            logger.warning("try %d of %d to reach the cluster failed: %s", attempt, options.offset_tries, error)
            time.sleep(options.offset_retry_interval_ms / 1000)
    raise AssertionError("there is at least one try")


@contextmanager
def collection_paused() -> Iterator[None]:
    """Keep the collector from running until the last of the pauses that overlap, in any thread, ends."""
    global _pauses, _was_enabled  # noqa: PLW0603 - the collector is one per process as well
    with _lock:
        if not _pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_enabled:
                gc.enable()
