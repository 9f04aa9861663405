"""`make run` as a person meets it: the tour, a node that goes on serving, Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.nodes.process import accepts_connections, wait_until


def tour_command(home: Path, *, record_count: int) -> list[str]:
    """Return a tour that leaves nothing outside of its home."""
    places = ["--data-dir", str(home / "data"), "--tier", str(home / "tier")]
    return [sys.executable, "-m", "crabka.cli.story", "--no-spark", "--records", str(record_count), *places]


def test_tour_goes_on_serving_until_ctrl_c(tmp_path: Path) -> None:
    shown = tmp_path / "shown.txt"
    command = tour_command(tmp_path, record_count=500)
    with shown.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as tour:
        try:
            wait_until(lambda: "serves until Ctrl-C" in shown.read_text(), "the tour is over")
            address = shown.read_text().partition("kcat -b ")[2].partition(" ")[0]
            port = int(address.rpartition(":")[2])
            assert accepts_connections(port)
            tour.send_signal(signal.SIGINT)
            assert tour.wait(120) == 0
        finally:
            tour.kill()
    assert not accepts_connections(port)
    assert "every order came back exactly once" in shown.read_text()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert list((tmp_path / "tier").iterdir())


def test_second_tour_reads_only_its_own_orders(tmp_path: Path) -> None:
    command = tour_command(tmp_path, record_count=300)
    shown = tmp_path / "shown.txt"
    for _ in range(2):
        with shown.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as tour:
            try:
                wait_until(lambda: "serves until Ctrl-C" in shown.read_text(), "the tour is over")
                tour.send_signal(signal.SIGTERM)
                assert tour.wait(120) == 0
            finally:
                tour.kill()
        assert "300 records" in shown.read_text()
