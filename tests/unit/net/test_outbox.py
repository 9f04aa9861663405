from __future__ import annotations

import errno
import logging

import pytest

from crabka.net import outbox as outbox_module
from tests.support.wire.outbox import Desk


def test_buffers_go_through_the_transport() -> None:
    desk = Desk()
    desk.outbox.write([b"one"])
    desk.outbox.write([b"two", memoryview(b"three")])
    desk.outbox.write([])
    assert bytes(desk.transport.buffered) == b"onetwothree"
    assert desk.outbox.unsent_bytes == 11
    assert not desk.outbox.is_waiting


def test_ranges_go_past_the_transport_with_the_bytes_around_them() -> None:
    desk = Desk()
    desk.writer.room = 100
    desk.outbox.write([b"head", desk.make_range(b"first"), b"between", desk.make_range(b"second"), b"", b"tail"])
    assert bytes(desk.transport.taken) == b"headfirstbetweensecondtail"
    assert desk.writer.more == [True, True, True, False]
    assert desk.calls == []
    assert not desk.outbox.is_waiting


def test_a_range_is_read_for_a_transport_without_a_socket() -> None:
    desk = Desk(direct=False)
    desk.outbox.write([b"head", desk.make_range(b"range"), b"tail"])
    assert bytes(desk.transport.buffered) == b"headrangetail"
    assert not desk.outbox.is_waiting


def test_a_full_socket_pauses_the_connection_until_all_has_left() -> None:
    desk = Desk()
    desk.writer.room = 6
    desk.outbox.write([b"head", desk.make_range(b"range")])
    assert (bytes(desk.transport.taken), desk.calls, desk.outbox.unsent_bytes) == (b"headra", ["pause"], 3)
    desk.writer.call(2)
    assert (bytes(desk.transport.taken), desk.calls, desk.outbox.unsent_bytes) == (b"headrang", ["pause"], 1)
    desk.writer.call(1)
    assert (bytes(desk.transport.taken), desk.calls, desk.outbox.unsent_bytes) == (b"headrange", ["pause", "resume"], 0)


def test_what_comes_later_waits_behind_a_range() -> None:
    desk = Desk()
    desk.outbox.write([b"head", desk.make_range(b"range")])
    desk.outbox.write([b"later"])
    desk.outbox.write([b"head2", desk.make_range(b"range2")])
    desk.writer.call(10)
    assert bytes(desk.transport.taken) == b"headrangel"
    desk.writer.call(100)
    assert bytes(desk.transport.taken) == b"headrangelaterhead2range2"
    assert desk.calls == ["pause", "resume"]
    assert not desk.transport.buffered


def test_a_range_waits_for_what_the_transport_still_has() -> None:
    desk = Desk()
    desk.writer.room = 100
    desk.outbox.write([b"before"])
    desk.outbox.write([b"head", desk.make_range(b"range")])
    desk.writer.call(0)
    assert not desk.transport.taken
    assert desk.outbox.unsent_bytes == len("beforeheadrange")
    desk.transport.flush()
    desk.writer.call(0)
    assert bytes(desk.transport.taken) == b"beforeheadrange"
    assert desk.calls == ["pause", "resume"]


def test_others_have_their_turn_while_a_fast_peer_gets_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "TURN_BYTES", 10)
    desk = Desk()
    desk.writer.room = 1000
    desk.outbox.write([b"head", desk.make_range(b"x" * 20), b"more", desk.make_range(b"y" * 20)])
    assert len(desk.transport.taken) == 24
    desk.writer.call(0)
    assert not desk.outbox.is_waiting


def test_a_file_that_became_shorter_costs_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    part = desk.make_range(b"range")
    desk.outbox.write([b"head", part])
    part.file.truncate(part.position + 2)
    with caplog.at_level(logging.ERROR):
        desk.writer.call(100)
    assert bytes(desk.transport.taken) == b"headra"
    assert desk.outbox.is_waiting
    with caplog.at_level(logging.ERROR):
        desk.writer.call(100)
    assert desk.transport.aborted
    assert desk.writer.closed
    assert "cannot be sent to its end" in caplog.text
    desk.outbox.write([b"never"])
    assert not desk.transport.buffered


def test_a_file_that_is_too_short_to_be_read_costs_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(direct=False)
    part = desk.make_range(b"range")
    part.file.truncate(part.position + 2)
    desk.outbox.write([b"head", part])
    assert desk.transport.aborted
    assert not desk.transport.buffered
    assert "ends before 8" in caplog.text


def test_a_peer_that_is_gone_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.writer.error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    desk.outbox.write([b"head", desk.make_range(b"range")])
    assert desk.transport.aborted
    assert not desk.outbox.is_waiting
    assert not caplog.text


def test_a_closed_outbox_forgets_everything() -> None:
    desk = Desk()
    desk.outbox.write([b"head", desk.make_range(b"range")])
    desk.outbox.close()
    assert desk.writer.closed
    assert (desk.outbox.is_waiting, desk.outbox.unsent_bytes) == (False, 0)
    desk.outbox.write([b"later"])
    assert not desk.transport.buffered
