"""Bars of a check."""

from __future__ import annotations

import io

from rich.console import Console

from crabka.cli.tier.progress import TierProgress
from crabka.remote.listing import TierObject


def run(console: Console) -> None:
    with TierProgress(console) as progress:
        progress.metadata(0, 500)
        progress.metadata(500, 500)
        found = [TierObject("d", str(number), 1, 0) for number in range(150)]
        assert list(progress.objects(found)) == found
        progress.contents(1)
        progress.begin_contents(1000)
        progress.contents(600)
        progress.contents(400)


def test_nothing_is_printed_to_a_file() -> None:
    stream = io.StringIO()
    run(Console(file=stream))
    assert stream.getvalue().strip() == ""


def test_a_terminal_sees_all_three() -> None:
    stream = io.StringIO()
    run(Console(file=stream, force_terminal=True, width=100))
    printed = stream.getvalue()
    assert "500 of 500 events" in printed
    assert "150 objects" in printed
    assert "1.0/1.0 kB" in printed
