"""The zip file that workers are sent; tests/spark has clusters that live on it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from crabka.errors import ConfigError
from crabka.spark.session import shipping
from crabka.spark.session.shipping import is_elsewhere, is_shipped, ship, write_package_zip


class FakeSession:
    """As much of a SparkSession as sending needs."""

    def __init__(self, master: str = "local[2]") -> None:
        self.sent: list[str] = []
        self.settings = {"spark.master": master}

    @property
    def conf(self) -> FakeSession:
        return self

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def get(self, name: str, default: str) -> str:
        return self.settings.get(name, default)

    def addArtifacts(self, path: str, *, pyfile: bool) -> None:  # noqa: N802 - Spark's name
        assert pyfile
        self.sent.append(path)


def test_the_zip_file_is_enough_to_import_everything(tmp_path: Path) -> None:
    path = write_package_zip(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(path)!r}); import pyspark_crabka; "
    done = subprocess.run(
        [sys.executable, "-c", code + "import crabka.spark.lake.syncing.tasks as tasks; print(tasks.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(path))


def test_equal_sources_are_equal_files(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first, second = write_package_zip(tmp_path), write_package_zip(tmp_path / "other")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert all(name.endswith(".py") for name in archive.namelist())


def test_a_session_is_sent_the_code_and_knows_it() -> None:
    session = FakeSession()
    assert not is_shipped(session)  # type: ignore[arg-type]
    ship(session)  # type: ignore[arg-type]
    assert [Path(path).suffix for path in session.sent] == [".zip"]
    assert is_shipped(session)  # type: ignore[arg-type]


def test_code_that_was_sent_is_not_sent_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shipping._own_zip.cache_clear()
    monkeypatch.setattr(shipping, "_root_of", lambda _package: None)
    session = FakeSession()
    ship(session)  # type: ignore[arg-type]
    shipping._own_zip.cache_clear()
    assert not session.sent
    with pytest.raises(ConfigError, match="crabka is not in a directory"):
        write_package_zip(tmp_path)


@pytest.mark.parametrize(("master", "far"), [("local[*]", False), ("spark://host:7077", True), ("yarn", True)])
def test_only_tasks_of_this_machine_find_the_code_by_themselves(master: str, far: bool) -> None:
    assert is_elsewhere(FakeSession(master)) is far  # type: ignore[arg-type]
