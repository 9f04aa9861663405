"""A command that has to wait says what is wrong with the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from crabka.cli import silence
from crabka.cli.session import cluster_settings, with_cluster
from crabka.cli.silence import Peer, listed, reason_of_silence
from crabka.clients.cluster.cluster import Cluster
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime import real_runtime, run
from tests.support.clients.scripted_broker import NO_ANSWER, ReceivedRequest
from tests.support.clusters.loopback import loopback_cluster


def reason(bootstrap: str) -> str | None:
    async def look() -> str | None:
        runtime = real_runtime()
        try:
            return await reason_of_silence(runtime, bootstrap, cluster_settings(None))
        finally:
            runtime.threads.close()

    return run(look())


@pytest.fixture
def closed_ports() -> Iterator[list[int]]:
    """Ports of this machine at which nothing listens."""
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        yield [first.getsockname()[1], second.getsockname()[1]]


def test_a_healthy_cluster_has_nothing_to_say(broker: str) -> None:
    assert reason(broker) is None


def test_a_quorum_without_a_majority_names_the_voters_that_are_gone(closed_ports: list[int]) -> None:
    def configs(request: ReceivedRequest) -> Any:
        new = request.types.new
        voters = f"1@{address},2@127.0.0.1:{closed_ports[0]},3@127.0.0.1:{closed_ports[1]}"
        entry = new(
            "DescribeConfigsResourceResult",
            name="controller.quorum.voters",
            value=voters,
            read_only=True,
            config_source=4,
            is_sensitive=False,
            synonyms=[],
            config_type=7,
            documentation=None,
        )
        result = new(
            "DescribeConfigsResult",
            error_code=ErrorCode.none,
            error_message=None,
            resource_type=4,
            resource_name="1",
            configs=[entry],
        )
        return request.types.message(throttle_time=0, results=[result])

    with loopback_cluster() as (cluster, address):
        answers = cluster.brokers[1].answers
        answers[ApiKey.DESCRIBE_QUORUM] = lambda _: NO_ANSWER
        answers[ApiKey.DESCRIBE_CONFIGS] = configs
        assert reason(address) == "no active controller; voters 2 and 3 unreachable"


def test_a_cluster_without_a_broker_is_named(closed_ports: list[int]) -> None:
    address = f"127.0.0.1:{closed_ports[0]}"
    assert str(reason(address)).startswith(f"no broker of {address} answers: ")


def test_the_reason_is_said_while_the_command_waits(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> str:
        return "no active controller"

    monkeypatch.setattr(silence, "PATIENCE_S", 0)
    monkeypatch.setattr(silence, "reason_of_silence", broken)
    said = io.StringIO()

    async def wait_for_words(_cluster: Cluster) -> None:
        while "\n" not in said.getvalue():
            await asyncio.sleep(0.01)

    with contextlib.redirect_stderr(said):
        with_cluster(broker, wait_for_words)
    assert said.getvalue() == "crabka: no active controller; waiting up to 30 s for an answer (--timeout)\n"


def test_nodes_are_listed_as_in_a_sentence() -> None:
    peers = [Peer(2, "h", 1), Peer(3, "h", 1), Peer(None, "::1", 9093)]
    assert listed("voter", peers[:1]) == "voter 2"
    assert listed("voter", peers) == "voters 2, 3 and [::1]:9093"
