"""What people get wrong, and the one sentence that they read then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crabka.cli.main import execute
from crabka.spark.session.error_texts import failure_of
from tests.support.wire.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def unused_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions for commands that end before they run anything."""

    class UnusedSession:
        sparkContext = None  # noqa: N815 - Spark's name

    @contextmanager
    def job_session(_name: str, _master: str | None = None) -> Iterator[Any]:
        yield UnusedSession()

    monkeypatch.setattr("crabka.spark.session.job_session.job_session", job_session)


LAKE = "lake sync orders --to {lake}"
AUDIT = "audit --tier {tier}"
REPLAY = "replay orders --to other"
STATS = "stats orders"
RECOVER = "recover --data-dir {lake}"
NO_BROKER = r"cannot connect to 127\.0\.0\.1:\d+: .*refused"


@pytest.mark.usefixtures("unused_session")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{LAKE} --bootstrap {{closed}}", NO_BROKER),
        (f"{AUDIT} --bootstrap {{closed}}", NO_BROKER),
        (f"{REPLAY} --bootstrap {{closed}}", NO_BROKER),
        (f"{STATS} --bootstrap {{closed}}", NO_BROKER),
        (
            f"{LAKE} --option tier.metadat=listing",
            "tier.metadat is not an option of the source; did you mean tier.metadat",
        ),
        (
            f"{REPLAY} --option tier.metadat=listing",
            "tier.metadat is not an option of the source; did you mean tier.met",
        ),
        (
            f"{STATS} --option tier.metadat=listing",
            "tier.metadat is not an option of the source; did you mean tier.metada",
        ),
        (f"{LAKE} --format orc", "orc is not a table format: use delta, iceberg, parquet"),
        (f"{LAKE} --value xml", "xml is not a value mode: use raw, json, avro"),
        (f"{REPLAY} --codec rar", "--codec rar: not one of none, gzip, snappy, lz4, zstd"),
        (f"{STATS} --pattern x", "name topics, or a --pattern of their names"),
        ("audit --tier ftp://host", "ftp://host is no storage: use file:///directory, s3://bucket/prefix, gs:// or az"),
        ("audit --tier {none}", r"{none} is no tier: it has no directory kafka-tiered-storage"),
        (f"{RECOVER} --tier {{none}}", "there is no tier at {none}: the directory does not exist"),
        ("recover --tier {tier}", "name the directory of the new node: --data-dir DIRECTORY or --config FILE"),
        (f"{RECOVER} --tier ftp://host", "ftp://host is no storage: use file:///directory, s3://bucket/prefix"),
    ],
)
def test_a_command_says_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str, message: str) -> None:
    places = {
        "lake": str(tmp_path / "lake"),
        "tier": str(tmp_path / "tier"),
        "none": str(tmp_path / "none"),
        "closed": f"127.0.0.1:{free_port()}",
    }
    (tmp_path / "tier" / "kafka-tiered-storage").mkdir(parents=True)
    assert execute(command.format(**places).split()) in (1, 2)
    said = capfd.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("crabka: ")
    assert_matches(line, message.replace("{none}", places["none"]))


def assert_matches(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        raise ValueError(line)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"subscribe": "orders", "tier.metadat": "listing"},
            "tier.metadat is not an option of the source; did you mean",
        ),
        ({"subscribe": "orders", "kafka.bootstrap.servers": "{closed}"}, NO_BROKER),
        (
            {"subscribe": "orders", "tier.metadata": "listing", "tier.uri": "file://{none}"},
            "there is no tier at {none}",
        ),
    ],
)
def test_a_read_ends_with_one_sentence(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    from pyspark.errors import PySparkException

    places = {"none": str(tmp_path / "none"), "closed": f"127.0.0.1:{free_port()}"}
    given = {name: value.format(**places) for name, value in options.items()}
    with pytest.raises(PySparkException) as raised:
        spark.read.format("crabka").options(**given).load().count()
    last = failure_of(str(raised.value))
    assert_matches(last, "^" + message.replace("{none}", places["none"]))
    found = str(raised.value).partition("\n\tat ")[0]
    # Below it there is only Spark's own code of the error.
    written = [line for line in found.splitlines() if line.strip() and "SQLSTATE" not in line]
    assert last in written[-1]
