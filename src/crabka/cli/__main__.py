"""`python -m crabka.cli` is `crabka`."""

from __future__ import annotations

from crabka.cli.main import run

run()
