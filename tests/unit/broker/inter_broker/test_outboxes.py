"""What comes while a request is in flight shares the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from crabka.broker.inter_broker.outboxes import BrokerOutboxes
from crabka.runtime.task_scope import TaskScope
from tests.support.async_tests import real_time, run_with


class Sender:
    """Sends when a test lets it."""

    def __init__(self, max_batch_count: int = 10) -> None:
        self.sent: list[tuple[int, list[str]]] = []
        self.given_up: list[str] = []
        self.failure: Exception | None = None
        self.turn = asyncio.Semaphore(0)
        self.tasks = TaskScope()
        self.outboxes: BrokerOutboxes[str] = BrokerOutboxes(
            self.tasks.start, self.send, give_up=self.given_up.append, max_batch_count=max_batch_count
        )

    async def send(self, node_id: int, batch: list[str]) -> None:
        self.sent.append((node_id, batch))
        await self.turn.acquire()
        if self.failure is not None:
            raise self.failure

    async def step(self) -> None:
        self.turn.release()
        for _ in range(3):
            await asyncio.sleep(0)


@run_with(real_time)
async def test_one_request_is_in_flight_to_a_broker() -> None:
    sender = Sender()
    put = sender.outboxes.put
    put(2, "a", "a1")
    put(3, "a", "a2")
    await asyncio.sleep(0)
    put(2, "b", "b1")
    put(2, "c", "c1")
    assert sender.sent == [(2, ["a1"]), (3, ["a2"])]
    await sender.step()
    assert sender.sent[2:] == [(2, ["b1", "c1"])]
    await sender.step()
    await sender.step()
    assert len(sender.tasks) == 0
    put(2, "d", "d1")
    await asyncio.sleep(0)
    assert sender.sent[3:] == [(2, ["d1"])]
    await sender.tasks.close()


@run_with(real_time)
async def test_an_entry_takes_the_place_of_one_that_waits() -> None:
    sender = Sender()
    sender.outboxes.put(2, "a", "first")
    await asyncio.sleep(0)
    assert sender.outboxes.waiting(2, "a") is None
    sender.outboxes.put(2, "a", "second")
    assert sender.outboxes.waiting(2, "a") == "second"
    assert sender.outboxes.waiting(3, "a") is None
    sender.outboxes.put(2, "a", "third")
    await sender.step()
    assert sender.sent == [(2, ["first"]), (2, ["third"])]
    await sender.tasks.close()


@run_with(real_time)
async def test_a_request_takes_no_more_than_so_many() -> None:
    sender = Sender(max_batch_count=2)
    for name in "abcde":
        sender.outboxes.put(2, name, name)
    await asyncio.sleep(0)
    await sender.step()
    await sender.step()
    assert [batch for _, batch in sender.sent] == [["a", "b"], ["c", "d"], ["e"]]
    await sender.tasks.close()


@run_with(real_time)
async def test_a_broker_that_is_not_reached_is_news_once_until_it_answers() -> None:
    outboxes = Sender().outboxes
    assert [outboxes.note_unreached(node_id) for node_id in (2, 2, 3)] == [True, False, True]
    outboxes.note_reached(2)
    assert [outboxes.note_unreached(node_id) for node_id in (2, 3)] == [True, False]


@pytest.mark.parametrize("ends_by", ["error", "cancellation"])
@run_with(real_time)
async def test_entries_are_given_up_when_sending_ends_unexpectedly(ends_by: str) -> None:
    sender = Sender(max_batch_count=1)
    sending: list[asyncio.Task[None]] = []

    def spawn(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        sending.append(asyncio.ensure_future(coroutine))
        return sending[-1]

    outboxes: BrokerOutboxes[str] = BrokerOutboxes(
        spawn, sender.send, give_up=sender.given_up.append, max_batch_count=1
    )
    for name in "abc":
        outboxes.put(2, name, name)
    await sender.step()
    assert [batch for _, batch in sender.sent] == [["a"], ["b"]]
    if ends_by == "error":
        sender.failure = ValueError("unexpected")
        sender.turn.release()
    else:
        sending[0].cancel()
    (outcome,) = await asyncio.gather(*sending, return_exceptions=True)
    assert isinstance(outcome, ValueError if ends_by == "error" else asyncio.CancelledError)
    assert sender.given_up == ["b", "c"]
    assert outboxes.waiting(2, "c") is None
    sender.failure = None
    outboxes.put(2, "d", "d")
    await sender.step()
    assert sender.sent[-1] == (2, ["d"])
    await asyncio.gather(*sending, return_exceptions=True)
