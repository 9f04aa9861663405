"""versitygw, a real S3 server over a directory, for tests of object stores.

Go builds the pinned version once into `.cache/versitygw/`. Where Go is missing, tests skip with the reason, except in
CI, where they fail.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.nodes.process import NodeProcess, accepts_connections
from tests.support.wire.ports import free_port

VERSION = "v1.8.0"
PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
CACHE = Path(__file__).parents[3] / ".cache" / "versitygw"
ACCESS_KEY = "AKIDCRABKATESTS"
SECRET_KEY = "hush-hush/secret+key=of-tests"
BUCKET = "tier"


class VersitygwUnavailableError(RuntimeError):
    """Go is missing or could not build the server; says which."""


def versitygw_binary() -> Path:
    """The server's program, built if need be; raises VersitygwUnavailableError."""
    binary = CACHE / VERSION / "versitygw"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Parallel test workers wait here for the one that builds.
        if not binary.exists():
            _build(binary.parent)
    return binary


def _build(directory: Path) -> None:
    if shutil.which("go") is None:
        raise VersitygwUnavailableError("no go on the PATH to build versitygw with")
    environment = os.environ | {"GOBIN": str(directory), "CGO_ENABLED": "0"}
    done = subprocess.run(
        ["go", "install", f"{PACKAGE}@{VERSION}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    if done.returncode != 0:
        raise VersitygwUnavailableError(f"Go could not build versitygw: {(done.stdout + done.stderr)[-1500:]}")


def require_versitygw() -> Path:
    """As versitygw_binary for tests: skips where it is unavailable, fails in CI."""
    try:
        return versitygw_binary()
    except VersitygwUnavailableError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI needs an S3 server: {error}")
        pytest.skip(str(error))


class VersityGateway(NodeProcess):
    """An S3 server with one user and the bucket BUCKET, on a directory."""

    name = "versitygw"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._binary = require_versitygw()
        self.port = free_port()

    @property
    def endpoint(self) -> str:
        """Where clients find the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def bucket_dir(self) -> Path:
        """Where the objects of the bucket lie as files."""
        return self.data_dir / BUCKET

    def keys(self) -> set[str]:
        """Return the keys of all objects."""
        files = (path for path in self.bucket_dir.rglob("*") if path.is_file())
        return {
            key for path in files if not (key := path.relative_to(self.bucket_dir).as_posix()).startswith(".sgwtmp")
        }

    def unfinished_uploads(self) -> list[Path]:
        """Return what uploads in parts have left that were neither completed nor aborted."""
        return [path for path in (self.bucket_dir / ".sgwtmp").rglob("*") if path.is_file()]

    def storage_settings(self, **changes: str) -> dict[str, str]:
        """Return the settings of a storage in the bucket; changes name them with underscores for dots."""
        settings = {
            "bucket": BUCKET,
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access.key.id": ACCESS_KEY,
            "secret.access.key": SECRET_KEY,
            "allow.http": "true",
        }
        return settings | {name.replace("_", "."): value for name, value in changes.items()}

    def _prepare(self) -> None:
        self.bucket_dir.mkdir(parents=True, exist_ok=True)
        (self.directory / "sidecar").mkdir(exist_ok=True)

    def _command(self) -> Sequence[str]:
        # The sidecar keeps metadata in files: not every temporary directory has extended attributes.
        options = ["--port", f"127.0.0.1:{self.port}", "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--quiet"]
        return [str(self._binary), *options, "posix", "--sidecar", str(self.directory / "sidecar"), str(self.data_dir)]

    def _is_ready(self) -> bool:
        return accepts_connections(self.port)
