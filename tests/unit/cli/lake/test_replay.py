"""`crabka replay` refuses what it cannot do before it starts Spark."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import RunCommand


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--codec", "rar"), "--codec rar: not one of none, gzip"),
        (("--table", "/lake", "--tier", "/tier"), "--table excludes --tier"),
        (("--target-bootstrap", "h:1", "--target-config", "missing"), "cannot read missing"),
    ],
)
def test_wrong_options_are_reported(crabka: RunCommand, options: tuple[str, ...], message: str) -> None:
    outcome = crabka("replay", "orders", "--to", "copy", *options)
    assert outcome.code == 2
    assert message in outcome.err
