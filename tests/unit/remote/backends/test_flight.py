from __future__ import annotations

import threading

import obstore
import pytest

from crabka.remote.backends.flight import PiecesInFlight


def test_bytes_count_until_their_memory_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crabka.remote.backends.flight._PATIENCE_S", 0)
    flight = PiecesInFlight()
    held = [flight.track(b"same"), flight.track(b"same"), flight.track(b"more of it")]
    assert flight.wait(18)
    assert not flight.wait(17)
    del held[0]
    assert flight.wait(14)
    assert not flight.wait(13)
    held.clear()
    assert flight.wait(0)


def test_waiting_ends_when_another_thread_lets_go() -> None:
    flight = PiecesInFlight()
    held = [flight.track(b"12345678")]
    waits = threading.Event()

    def let_go() -> None:
        waits.wait()
        held.clear()

    thread = threading.Thread(target=let_go)
    thread.start()
    waits.set()
    assert flight.wait(0)
    thread.join()


def test_what_obstore_holds_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crabka.remote.backends.flight._PATIENCE_S", 0)
    flight = PiecesInFlight()
    held = obstore.Bytes(flight.track(b"0123456789"))
    part = held[3:5:1]
    del held
    assert not flight.wait(9)
    assert bytes(part) == b"34"
    del part
    assert flight.wait(0)
