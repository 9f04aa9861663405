from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING, cast

import pytest

from crabka.runtime import acceptor, new_event_loop
from crabka.runtime.acceptor import ACCEPTS_PER_TURN, Acceptor
from tests.support.async_tests import run_with

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

BACKLOG = 128


class Counting(asyncio.Protocol):
    """Closes what it gets and notes it."""

    def __init__(self, made: list[asyncio.Transport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(cast("asyncio.Transport", transport))


class ShortSocket(socket.socket):
    """A listening socket of a process that has no descriptor left."""

    failures = 0

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@pytest.fixture(params=[asyncio.new_event_loop, new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    def run_on_loop(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)

    return run_on_loop


def listening() -> ShortSocket:
    opened = ShortSocket(socket.AF_INET, socket.SOCK_STREAM)
    opened.bind(("127.0.0.1", 0))
    opened.listen(BACKLOG)
    return opened


def connected(to: socket.socket, count: int) -> list[socket.socket]:
    """The kernel completes connections before anybody accepts them."""
    return [socket.create_connection(to.getsockname()) for _ in range(count)]


async def turns_until(is_met: Callable[[], bool]) -> int:
    turns = 0
    while not is_met():
        await asyncio.sleep(0)
        turns += 1
    return turns


async def closed(accepting: Acceptor, made: list[asyncio.Transport], clients: list[socket.socket]) -> None:
    accepting.close()
    for transport in made:
        transport.abort()
    for client in clients:
        client.close()
    await asyncio.sleep(0.01)


@run_with(lambda test, run: run(test()))
async def test_a_crowd_is_accepted_in_few_turns_of_the_loop() -> None:
    made: list[asyncio.Transport] = []
    opened = listening()
    accepting = Acceptor(opened, lambda: Counting(made))
    clients = connected(opened, 96)
    accepting.start()
    turns = await turns_until(lambda: len(made) == len(clients))
    # Three for the crowd, and some from the descriptor to the protocol.
    assert turns <= 12
    await closed(accepting, made, clients)


@run_with(lambda test, run: run(test()))
async def test_a_turn_accepts_a_bounded_number() -> None:
    made: list[asyncio.Transport] = []
    opened = listening()
    accepting = Acceptor(opened, lambda: Counting(made))
    clients = connected(opened, 2 * ACCEPTS_PER_TURN)
    accepting._accept_some()
    assert len(accepting._opening) == ACCEPTS_PER_TURN
    accepting._accept_some()
    await turns_until(lambda: len(made) == len(clients))
    await closed(accepting, made, clients)


def test_without_descriptors_connections_wait_and_are_accepted_later(
    run: Callable[[Coroutine[Any, Any, None]], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(acceptor, "PAUSE_S", 0.0)

    async def main() -> None:
        made: list[asyncio.Transport] = []
        opened = listening()
        opened.failures = 3
        accepting = Acceptor(opened, lambda: Counting(made))
        clients = connected(opened, 2)
        accepting.start()
        await turns_until(lambda: len(made) == 2)
        await closed(accepting, made, clients)

    with caplog.at_level(logging.WARNING):
        run(main())
    assert [record.message for record in caplog.records] == ["connections wait: Too many open files"]


@run_with(lambda test, run: run(test()))
async def test_nothing_is_accepted_after_close() -> None:
    made: list[asyncio.Transport] = []
    opened = listening()
    accepting = Acceptor(opened, lambda: Counting(made))
    accepting.start()
    address = opened.getsockname()
    accepting.close()
    accepting.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    assert made == []
