"""Where the tier of a cluster is, as its brokers say: Crabka shows where its storage is, Kafka hides that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

from crabka.config.java_classes import LOCAL_TIERED_STORAGE
from crabka.errors import OperationError
from crabka.remote.backends.url import CLASS_NAME, SETTING_PREFIX
from crabka.spark.broker_session import BrokerSession

_DIRECTORY_KINDS: Final = ("local", "file", LOCAL_TIERED_STORAGE)
_PASSED_ON: Final[tuple[str, ...]] = ("endpoint", "region", "allow.http", "virtual.hosted.style")


def ask_tier_uri(session: BrokerSession) -> str | None:
    """Return the address of the tier; None if the cluster has none or does not say."""
    try:
        return tier_uri_of(session.broker_configs())
    except OperationError:
        return None  # not everybody may see the configs of brokers


def tier_uri_of(configs: Mapping[str, str | None]) -> str | None:
    """Return the address that a broker's settings amount to; None if they do not say enough."""
    kind = configs.get(CLASS_NAME)
    found = {
        name.removeprefix(SETTING_PREFIX): value
        for name, value in configs.items()
        if name.startswith(SETTING_PREFIX) and value
    }
    if kind in _DIRECTORY_KINDS and "dir" in found:
        return f"file://{quote(found['dir'])}"
    query = urlencode({name: found[name] for name in _PASSED_ON if name in found})
    path = "/".join(part for part in (found.get("prefix", "").strip("/"),) if part)
    match kind:
        case "s3" | "gcs" if "bucket" in found:
            address = f"{'s3' if kind == 's3' else 'gs'}://{found['bucket']}/{quote(path)}"
        case "azure" if "account" in found and "container" in found:
            address = f"az://{found['account']}/{found['container']}/{quote(path)}"
        case _:
            return None
    return f"{address.rstrip('/')}?{query}" if query else address.rstrip("/")
