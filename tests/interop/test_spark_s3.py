"""A tier in a real S3 server, read as the Spark source reads it: listings, ranges, indexes and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from crabka.remote.backends.bucket import Bucket
from crabka.remote.errors import RemoteBackendError
from crabka.remote.layout import object_path
from crabka.spark.access.tier_store import open_tier_store
from crabka.spark.errors import DataLossError
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan import plan_read
from crabka.spark.read import ReadSettings, read_split
from tests.support.tiers.planted import PlantedTier, two_segments
from tests.support.tiers.versitygw import VersityGateway

# The first run builds the server.
pytestmark = [pytest.mark.timeout(1500), pytest.mark.allow_leaks("obstore keeps connections open for later requests")]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersityGateway]:
    with VersityGateway(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def tier(gateway: VersityGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlantedTier:
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path))
    planted = two_segments()
    bucket = open_tier_store(uri_of(gateway), secrets_of(gateway))
    assert isinstance(bucket, Bucket)
    for name, data in planted.storage.objects.items():
        bucket.put(name, data)
    return planted


def uri_of(gateway: VersityGateway) -> str:
    settings = gateway.storage_settings()
    query = "&".join(
        f"{name}={quote(settings[name], safe='')}" for name in ("endpoint", "region", "allow.http") if name in settings
    )
    return f"s3://{settings['bucket']}/cold?{query}"


def secrets_of(gateway: VersityGateway) -> dict[str, str]:
    settings = gateway.storage_settings()
    return {name: settings[name] for name in ("access.key.id", "secret.access.key")}


def options(gateway: VersityGateway, **more: str) -> SourceOptions:
    given = {"subscribe": "orders", "tier.uri": uri_of(gateway), "tier.metadata": "listing"}
    given |= {f"tier.config.{name}": value for name, value in secrets_of(gateway).items()}
    return SourceOptions.parse(given | more, streaming=False)


def read(chosen: SourceOptions) -> list[int]:
    settings = ReadSettings.of(chosen, ["offset"])
    batches = [batch for split in plan_read(chosen).splits for batch in read_split(split, settings)]
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.usefixtures("tier")
def test_rows_come_from_the_bucket(gateway: VersityGateway) -> None:
    assert read(options(gateway)) == list(range(60))
    part = {"startingOffsets": '{"orders":{"0":17}}', "endingOffsets": '{"orders":{"0":44}}'}
    assert read(options(gateway, **part)) == list(range(17, 44))


def test_an_object_that_was_deleted_meanwhile_is_a_loss(gateway: VersityGateway, tier: PlantedTier) -> None:
    chosen = options(gateway)
    plan = plan_read(chosen)
    bucket = open_tier_store(uri_of(gateway), secrets_of(gateway))
    assert isinstance(bucket, Bucket)
    bucket.delete([object_path(tier.segments[0])])
    with pytest.raises(DataLossError, match="offsets 0 to 29 of orders-0 are gone"):
        list(read_split(plan.splits[0], ReadSettings.of(chosen, ["offset"])))


@pytest.mark.usefixtures("tier")
def test_a_wrong_key_is_one_clear_error(gateway: VersityGateway) -> None:
    wrong = options(gateway, **{"tier.config.secret.access.key": "wrong-and-secret"})
    with pytest.raises(RemoteBackendError) as caught:
        plan_read(wrong)
    assert "wrong-and-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
