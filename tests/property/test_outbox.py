"""Whatever fits and whenever, what leaves is a prefix of what was written, and in the end all of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crabka.ports import Payload
from tests.support.wire.outbox import Desk

contents = st.binary(max_size=12)
# A frame begins with bytes; what follows is a range (True) or more bytes.
frames = st.tuples(st.binary(min_size=1, max_size=12), st.lists(st.tuples(st.booleans(), contents.filter(len))))
steps = st.one_of(frames, st.integers(0, 15), st.just("flush"), st.just("cut"))


@given(st.lists(steps, max_size=30))
def test_bytes_leave_in_order_and_stop_only_at_a_file_that_was_cut(script: list[object]) -> None:
    desk = Desk()
    written = bytearray()
    last_range = None
    cut = False
    for step in script:
        if step == "flush":
            desk.transport.flush()
        elif step == "cut" and last_range is not None:
            cut = True
            last_range.file.truncate(last_range.position)
        elif isinstance(step, int):
            desk.writer.call(step)
        elif isinstance(step, tuple):
            head, parts = step
            payloads: list[Payload] = [head]
            for is_range, data in parts:
                if is_range:
                    last_range = desk.make_range(data)
                payloads.append(last_range if is_range and last_range is not None else data)
            desk.outbox.write(payloads)
            written += b"".join([head, *(data for _, data in parts)])
        assert written.startswith(bytes(desk.transport.taken + desk.transport.buffered))
        if not desk.transport.aborted:
            assert len(desk.transport.taken) + desk.outbox.unsent_bytes == len(written)
        assert desk.calls == ["pause", "resume"] * (len(desk.calls) // 2) + ["pause"] * (len(desk.calls) % 2)
        assert desk.outbox.is_waiting <= (desk.calls[-1:] == ["pause"])
    desk.transport.flush()
    while desk.outbox.is_waiting:
        desk.writer.call(10)
    desk.transport.flush()
    assert desk.transport.aborted <= cut
    if not desk.transport.aborted:
        assert bytes(desk.transport.taken) == bytes(written)
