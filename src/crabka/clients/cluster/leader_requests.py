"""Requests to the leaders of partitions, grouped by leader, with retries where the leader moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from crabka.clients.cluster.cluster import Cluster, means_stale_metadata
from crabka.clients.cluster.connection import Connection
from crabka.clients.errors import ClientNetworkError
from crabka.errors import OperationError
from crabka.ids import TopicPartition
from crabka.protocol.error_codes import ErrorCode

T = TypeVar("T")
Answers = dict[TopicPartition, T | OperationError]
Ask = Callable[[Connection, list[TopicPartition]], Awaitable[Answers[T]]]


async def ask_leaders(
    cluster: Cluster, partitions: Iterable[TopicPartition], ask: Ask[T], timeout_ms: int = 30_000
) -> dict[TopicPartition, T]:
    """Ask each partition's leader and return all answers.

    `ask` sends one request for some partitions and returns an answer or an error for each. Retriable errors and lost
    connections are retried until the timeout. Raises the last OperationError or ClientNetworkError.
    """
    answers: dict[TopicPartition, T] = {}
    open_partitions = list(dict.fromkeys(partitions))
    deadline_ms = cluster.runtime.clock.monotonic_ms() + timeout_ms
    backoff = cluster.backoff()
    while True:
        failure: Exception | None = None
        found: Answers[T] = {}
        try:
            found = await ask_leaders_once(cluster, open_partitions, ask)
        except ClientNetworkError as error:
            failure = error
        for partition, answer in found.items():
            if not isinstance(answer, OperationError):
                answers[partition] = answer
                continue
            if not answer.retriable:
                raise answer
            failure = answer
        open_partitions = [partition for partition in open_partitions if partition not in answers]
        if failure is None and not open_partitions:
            return answers
        pause_ms = backoff.next_ms()
        if cluster.runtime.clock.monotonic_ms() + pause_ms > deadline_ms:
            raise failure or ClientNetworkError("a broker left partitions out of its answer")
        await asyncio.sleep(pause_ms / 1000)


async def ask_leaders_once(cluster: Cluster, partitions: Iterable[TopicPartition], ask: Ask[T]) -> Answers[T]:
    """Ask each partition's leader once; return an answer or an error for each that was answered.

    Raises ClientNetworkError when no broker returns the leaders.
    """
    by_leader: dict[int, list[TopicPartition]] = {}
    answers: Answers[T] = {}
    for partition in partitions:
        try:
            leader = (await cluster.partition(partition, timeout_ms=0)).leader
        except OperationError as error:
            # An unknown one may be new: the caller retries until its timeout.
            answers[partition] = error
        else:
            by_leader.setdefault(leader, []).append(partition)
    tasks = [_ask_leader(cluster, leader, group, ask) for leader, group in by_leader.items()]
    for answered in await asyncio.gather(*tasks):
        answers.update(answered)
    for partition, answer in answers.items():
        if isinstance(answer, OperationError) and means_stale_metadata(answer.error_code):
            cluster.invalidate(partition.topic)
    return answers


async def _ask_leader(cluster: Cluster, leader: int, partitions: list[TopicPartition], ask: Ask[T]) -> Answers[T]:
    try:
        return await ask(await cluster.connection(leader), partitions)
    except ClientNetworkError as error:
        return {partition: OperationError(ErrorCode.network_exception, str(error)) for partition in partitions}


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partition indexes per topic, in the order given."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def error_or(code: ErrorCode, message: str, value: T) -> T | OperationError:
    """Return the value, or the error if the code is one."""
    return value if code is ErrorCode.none else OperationError(code, message)
