from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from crabka.testing import SimulatedTransport, VirtualTimeLoop
from crabka.testing.simulated_transport import HIGH_WATER_BYTES, WINDOW_BYTES

if TYPE_CHECKING:
    from crabka.testing.simulated_transport import Pipe


class FixedLink:
    """A link of one millisecond that can be blocked."""

    def __init__(self) -> None:
        self.open = True
        self.parked: list[Pipe] = []

    def travel_s(self) -> float:
        return 0.001

    def blocked(self) -> bool:
        return not self.open

    def park(self, pipe: Pipe) -> None:
        self.parked.append(pipe)


class Recorder(asyncio.Protocol):
    """Writes down every call."""

    def __init__(self, *, half_close: bool = False) -> None:
        self.chunks: list[bytes] = []
        self.calls: list[str] = []
        self.half_close = half_close

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        self.chunks.append(data)

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return self.half_close

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append(f"lost {type(exc).__name__}" if exc else "lost")


class BufferedRecorder(asyncio.BufferedProtocol):
    """Receives into a small buffer."""

    def __init__(self, size: int) -> None:
        self.buffer = bytearray(size)
        self.received = bytearray()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]


class Pair:
    """Two joined ends on a loop that the test turns by hand."""

    def __init__(self, left: asyncio.BaseProtocol | None = None, right: asyncio.BaseProtocol | None = None) -> None:
        self.loop = VirtualTimeLoop()
        rng = random.Random(3)
        self.link = FixedLink()
        self.left = SimulatedTransport(self.loop, rng, ("left", 1), ("right", 2))
        self.right = SimulatedTransport(self.loop, rng, ("right", 2), ("left", 1))
        self.left.attach(self.right, self.link)
        self.right.attach(self.left, self.link)
        self.a, self.b = Recorder(), Recorder()
        self.left.start(left or self.a)
        self.right.start(right or self.b)

    def settle(self) -> None:
        """Let everything happen that can."""
        self.loop.run_until_complete(asyncio.sleep(10))


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture(autouse=True)
def close_loops(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    original = Pair.__init__

    def tracked(self: Pair, *args: asyncio.BaseProtocol, **kwargs: asyncio.BaseProtocol) -> None:
        original(self, *args, **kwargs)
        request.addfinalizer(self.loop.close)

    monkeypatch.setattr(Pair, "__init__", tracked)


def test_bytes_arrive_in_order_in_chunks_of_many_sizes(pair: Pair) -> None:
    data = random.Random(1).randbytes(100_000)
    for start in range(0, len(data), 1000):
        pair.left.write(data[start : start + 1000])
    pair.settle()
    assert b"".join(pair.b.chunks) == data
    assert len({len(chunk) for chunk in pair.b.chunks}) > 2


def test_written_buffers_may_be_reused_at_once(pair: Pair) -> None:
    buffer = bytearray(b"first")
    pair.left.write(memoryview(buffer))
    buffer[:] = b"other"
    pair.settle()
    assert b"".join(pair.b.chunks) == b"first"


def test_buffered_protocol_receives_into_its_own_buffer() -> None:
    receiver = BufferedRecorder(7)
    pair = Pair(right=receiver)
    data = random.Random(1).randbytes(1000)
    pair.left.write(data)
    pair.settle()
    assert receiver.received == data


def test_paused_reader_receives_nothing_until_it_resumes(pair: Pair) -> None:
    pair.right.pause_reading()
    assert not pair.right.is_reading()
    pair.left.write(b"data")
    pair.settle()
    assert pair.b.chunks == []
    pair.right.resume_reading()
    pair.settle()
    assert b"".join(pair.b.chunks) == b"data"


def test_slow_reader_pauses_the_writer_and_resumes_it(pair: Pair) -> None:
    pair.right.pause_reading()
    pair.left.write(bytes(WINDOW_BYTES + HIGH_WATER_BYTES))
    assert pair.a.calls == ["made"]
    pair.left.write(b"x")
    assert pair.a.calls == ["made", "pause"]
    assert pair.left.get_write_buffer_size() == HIGH_WATER_BYTES + 1
    pair.settle()
    assert pair.a.calls == ["made", "pause"]
    pair.right.resume_reading()
    pair.settle()
    assert pair.a.calls == ["made", "pause", "resume"]
    assert pair.left.get_write_buffer_size() == 0


def test_write_buffer_limits_follow_asyncio(pair: Pair) -> None:
    assert pair.left.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
    pair.left.set_write_buffer_limits(high=100)
    assert pair.left.get_write_buffer_limits() == (25, 100)
    pair.left.set_write_buffer_limits(low=10)
    assert pair.left.get_write_buffer_limits() == (10, 40)
    with pytest.raises(ValueError, match="must be >="):
        pair.left.set_write_buffer_limits(high=1, low=2)


def test_close_delivers_what_was_written_and_ends_both_sides(pair: Pair) -> None:
    pair.left.write(b"last words")
    pair.left.close()
    pair.left.close()
    pair.left.write(b"after close")
    assert pair.left.is_closing()
    pair.settle()
    assert b"".join(pair.b.chunks) == b"last words"
    assert pair.a.calls == ["made", "lost"]
    assert pair.b.calls == ["made", "eof", "lost"]


def test_close_waits_until_a_slow_reader_has_room(pair: Pair) -> None:
    pair.right.pause_reading()
    pair.left.write(bytes(WINDOW_BYTES + 1))
    pair.left.close()
    pair.settle()
    assert pair.a.calls == ["made"]
    pair.right.resume_reading()
    pair.settle()
    assert pair.a.calls[-1] == "lost"
    assert sum(map(len, pair.b.chunks)) == WINDOW_BYTES + 1


def test_half_closed_connection_still_carries_the_other_direction() -> None:
    recorder = Recorder(half_close=True)
    pair = Pair(right=recorder)
    assert pair.left.can_write_eof()
    pair.left.write_eof()
    pair.settle()
    assert recorder.calls == ["made", "eof"]
    pair.right.write(b"answer")
    pair.settle()
    assert b"".join(pair.a.chunks) == b"answer"
    with pytest.raises(RuntimeError, match="write_eof"):
        pair.left.write(b"x")


def test_abort_drops_bytes_and_resets_the_peer(pair: Pair) -> None:
    pair.left.write(b"never seen")
    pair.left.abort()
    pair.settle()
    assert pair.b.chunks == []
    assert pair.a.calls == ["made", "lost"]
    assert pair.b.calls == ["made", "lost ConnectionResetError"]


def test_writing_to_a_closed_peer_is_answered_by_a_reset() -> None:
    recorder = Recorder(half_close=True)
    pair = Pair(right=recorder)
    pair.left.close()
    pair.settle()
    pair.right.write(b"too late")
    pair.settle()
    assert recorder.calls == ["made", "eof", "lost ConnectionResetError"]


def test_blocked_link_holds_bytes_back_and_keeps_their_order(pair: Pair) -> None:
    pair.link.open = False
    pair.left.write(b"1")
    pair.settle()
    pair.left.write(b"2")
    pair.settle()
    assert pair.b.chunks == []
    pair.link.open = True
    pair.link.parked[0].resume()
    pair.left.write(b"3")
    pair.settle()
    assert b"".join(pair.b.chunks) == b"123"


def test_failing_protocol_ends_its_connection_and_is_reported() -> None:
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            raise KeyError("bug")

    failing = Failing()
    pair = Pair(right=failing)
    reported: list[object] = []
    pair.loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    pair.left.write(b"x")
    pair.settle()
    assert [type(error) for error in reported] == [KeyError]
    assert failing.calls == ["made", "lost KeyError"]
    assert pair.a.calls == ["made", "lost ConnectionResetError"]


def test_empty_receive_buffer_is_an_error() -> None:
    pair = Pair(right=BufferedRecorder(0))
    reported: list[object] = []
    pair.loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    pair.left.write(b"x")
    pair.settle()
    assert [type(error) for error in reported] == [RuntimeError]


def test_vanished_end_is_silent_and_its_peer_sees_a_reset(pair: Pair) -> None:
    pair.right.vanish()
    pair.settle()
    assert pair.b.calls == ["made"]
    assert pair.a.calls == ["made", "lost ConnectionResetError"]
    assert pair.right.dead
    assert pair.left.dead


def test_an_end_that_was_reset_before_it_had_a_protocol_reports_it_at_once(pair: Pair) -> None:
    late = SimulatedTransport(pair.loop, random.Random(1), ("right", 2), ("left", 1))
    late.attach(pair.left, pair.link)
    late.arrived(ConnectionResetError())
    pair.settle()
    protocol = Recorder()
    late.start(protocol)
    pair.settle()
    assert protocol.calls == ["made", "lost ConnectionResetError"]


def test_protocol_can_be_switched(pair: Pair) -> None:
    other = Recorder()
    pair.right.set_protocol(other)
    assert pair.right.get_protocol() is other
    pair.left.write(b"x")
    pair.settle()
    assert other.chunks == [b"x"]
    pair.right.abort()
    pair.settle()
    with pytest.raises(RuntimeError, match="no protocol"):
        pair.right.get_protocol()
