"""What every remote storage promises, run on a real S3 server: in one request per object and in parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crabka.remote.backends.object_store import STREAM_PIECE_BYTES, ObjectStoreStorage
from crabka.remote.backends.s3 import s3_storage
from crabka.remote.layout import partition_directory
from crabka.testing.remote_contracts import StorageManagerContract
from crabka.testing.remote_samples import SAMPLE_PARTITION
from tests.support.tiers.versitygw import VersityGateway

# The first run builds the server.
pytestmark = pytest.mark.timeout(1500)

SMALLEST_PART = str(5 << 20)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersityGateway]:
    with VersityGateway(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def prefix(request: pytest.FixtureRequest, gateway: VersityGateway) -> str:
    """Give every test a tier of its own."""
    prefix = f"{request.node.nodeid.split('::')[-2]}/{request.node.name}"
    # This server removes directories that it finds empty, and answers 409 to who writes there at the same moment.
    directory = gateway.bucket_dir / prefix / partition_directory(SAMPLE_PARTITION)
    directory.mkdir(parents=True)
    (directory / "kept").touch()
    return prefix


class TestS3Storage(StorageManagerContract):
    large_segment_bytes = STREAM_PIECE_BYTES + 17

    @pytest.fixture
    def storage(self, gateway: VersityGateway, prefix: str) -> Iterator[ObjectStoreStorage]:
        storage = s3_storage()
        storage.configure(gateway.storage_settings(prefix=prefix))
        yield storage
        storage.close()


class TestS3StorageInParts(StorageManagerContract):
    large_segment_bytes = STREAM_PIECE_BYTES + (5 << 20) + 17

    @pytest.fixture
    def storage(self, gateway: VersityGateway, prefix: str) -> Iterator[ObjectStoreStorage]:
        storage = s3_storage()
        parts = {"multipart_threshold_bytes": SMALLEST_PART, "multipart_part_bytes": SMALLEST_PART}
        storage.configure(gateway.storage_settings(prefix=prefix, **parts))
        yield storage
        storage.close()
        assert gateway.unfinished_uploads() == []
