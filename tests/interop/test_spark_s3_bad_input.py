"""What the Spark commands say of buckets that are not there and keys that are not right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crabka.cli.main import execute
from tests.support.tiers.versitygw import ACCESS_KEY, BUCKET, SECRET_KEY, VersityGateway

# The first run builds the server.
pytestmark = [pytest.mark.timeout(1500), pytest.mark.allow_leaks("obstore keeps connections open for later requests")]

LISTING = "--option tier.metadata=listing --tier {tier}"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersityGateway]:
    with VersityGateway(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(autouse=True)
def unused_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sessions for commands that end before they run anything."""

    class UnusedSession:
        sparkContext = None  # noqa: N815 - Spark's name

    @contextmanager
    def job_session(_name: str, _master: str | None = None) -> Iterator[Any]:
        yield UnusedSession()

    monkeypatch.setattr("crabka.spark.session.job_session.job_session", job_session)
    monkeypatch.setenv("CRABKA_CACHE_DIR", str(tmp_path))


@pytest.fixture(
    params=[
        ("missing", SECRET_KEY, r"missing.*(not exist|NoSuchBucket|not found)"),
        (BUCKET, "wrong", r"(denied|SignatureDoesNotMatch|signature|credentials)"),
    ],
    ids=["missing-bucket", "wrong-key"],
)
def bad_tier(
    request: pytest.FixtureRequest, gateway: VersityGateway, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """The address of a tier that cannot be opened, and what is said of it."""
    bucket, secret, message = request.param
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    return f"s3://{bucket}/cold?endpoint={gateway.endpoint}&region=us-east-1&allow.http=true", message


@pytest.mark.parametrize(
    "command",
    [
        f"lake sync orders --to {{lake}} {LISTING}",
        f"replay orders --to other {LISTING}",
        f"stats orders {LISTING}",
        "audit --tier {tier}",
        "recover --data-dir {lake} --tier {tier}",
    ],
)
def test_a_tier_that_cannot_be_opened_is_one_line(
    bad_tier: tuple[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    tier, message = bad_tier
    assert execute(command.format(lake=tmp_path / "lake", tier=tier).split()) in (1, 2)
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("crabka: ")
    assert re.search(message, line, re.IGNORECASE), line
