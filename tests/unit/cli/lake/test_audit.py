"""`crabka audit` says so when it cannot check at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import RunCommand


def test_what_cannot_be_checked_has_an_exit_code_of_its_own(
    crabka: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crabka.spark.session.job_session.job_session", _no_session)
    outcome = crabka("audit", "--tier", f"file://{tmp_path}/nowhere")
    assert outcome.code == 2
    assert "could not check: " in outcome.err
    assert "is no tier" in outcome.err


class _no_session:  # noqa: N801 - stands for a function
    def __init__(self, _name: str, _master: str | None) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_exc: object) -> None:
        pass


def test_an_audit_needs_a_tier_or_a_cluster_that_has_one(crabka: RunCommand, broker: str) -> None:
    unnamed = crabka("audit")
    assert (unnamed.code, "--tier URL, or the cluster that has it by --bootstrap" in unnamed.err) == (2, True)
    untiered = crabka("audit", "--bootstrap", broker)
    assert (untiered.code, "the brokers have no remote storage" in untiered.err) == (2, True)
