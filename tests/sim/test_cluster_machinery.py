"""The parts of the cluster simulation do what it relies on: processes stop and die apart, losses are judged."""

from __future__ import annotations

import asyncio
import random

import pytest

from crabka.ids import TopicPartition
from crabka.metadata.image import MetadataImage
from crabka.testing import InlineThreads, SimulatedNetwork
from tests.support.cluster_sim.model import ClusterModel
from tests.support.cluster_sim.process_loop import PROCESS, ProcessLoop, SimulatedProcess
from tests.support.cluster_sim.trace import ClusterTrace
from tests.support.quorum.images import ELR_ON, cluster, with_partitions

PLACE = TopicPartition("t", 0)


def test_a_paused_process_does_nothing_while_others_go_on() -> None:
    loop = ProcessLoop()
    ticks: list[tuple[str, float]] = []

    async def tick() -> None:
        threads = InlineThreads(loop, random.Random(1), max_delay_ms=1)
        process = PROCESS.get()
        assert process is not None
        while True:
            await asyncio.sleep(1)
            await threads.submit(lambda: ticks.append((process.name, loop.time())))

    async def main() -> None:
        first, second = SimulatedProcess(loop, "first"), SimulatedProcess(loop, "second")
        tasks = [first.start(tick()), second.start(tick())]
        await asyncio.sleep(2.5)
        first.pause()
        await asyncio.sleep(5)
        first.resume()
        await asyncio.sleep(1.5)
        for task in tasks:
            task.cancel()

    loop.run(main())
    firsts = [when for name, when in ticks if name == "first"]
    assert not [when for when in firsts if 2.5 < when < 7.5]
    assert len(firsts) == 4
    assert len([name for name, _ in ticks if name == "second"]) == 8


def test_a_run_ends_although_a_process_is_paused() -> None:
    """A broken invariant ends a run at any moment; the tasks of a paused process are cancelled as all others."""
    loop = ProcessLoop()
    ended: list[str] = []

    async def wait_forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("paused")

    async def main() -> None:
        process = SimulatedProcess(loop, "paused")
        process.start(wait_forever())
        await asyncio.sleep(1)
        process.pause()

    loop.run(main())
    assert ended == ["paused"]


def test_the_host_of_a_paused_process_accepts_connections_and_bytes() -> None:
    loop = ProcessLoop()
    network = SimulatedNetwork(loop, random.Random(1))
    received: list[float] = []

    class Listening(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            received.append(loop.time())

    async def main() -> None:
        process = SimulatedProcess(loop, "server")
        await process.start(network.host("server").listen(Listening, "", 9092))
        process.pause()
        transport, _ = await network.host("client").connect(asyncio.Protocol, "server", 9092)
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"hello")
        await asyncio.sleep(3)
        assert not received
        process.resume()
        await asyncio.sleep(1)
        transport.close()
        await asyncio.sleep(1)

    loop.run(main())
    assert len(received) == 1


def test_nothing_is_left_of_a_dead_process() -> None:
    loop = ProcessLoop()

    async def cling() -> None:
        while True:
            try:
                await asyncio.sleep(1)
            finally:
                await asyncio.sleep(1)

    async def main() -> None:
        process = SimulatedProcess(loop, "dead")
        process.start(cling())
        await asyncio.sleep(0.5)
        process.bury()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not loop.tasks_of(process)

    loop.run(main())


def image_with(isr: tuple[int, ...], elr: tuple[int, ...] = ()) -> MetadataImage:
    first = {"replicas": (1, 2, 3), "isr": isr, "eligible_leader_replicas": elr}
    return with_partitions(cluster(1, 2, 3, features=ELR_ON), "t", first, min_insync_replicas="2")


@pytest.fixture
def model() -> ClusterModel:
    return ClusterModel(ClusterTrace(lambda: 0.0), lambda: 0.0)


def test_process_kills_excuse_no_loss(model: ClusterModel) -> None:
    for broker in (1, 2, 3):
        model.note_end(broker, image_with((1, 2, 3)), loses_data=False)
    assert not model.is_excused(PLACE)


def test_the_loss_of_all_but_one_excuses_nothing(model: ClusterModel) -> None:
    for broker in (1, 2):
        model.note_end(broker, image_with((1, 2, 3)), loses_data=True)
    assert not model.is_excused(PLACE)


def test_the_loss_of_all_in_sync_is_an_excuse_even_with_other_replicas(model: ClusterModel) -> None:
    model.note_end(1, image_with((1, 2)), loses_data=True)
    assert not model.is_excused(PLACE)
    model.note_end(2, image_with((1, 2)), loses_data=True)
    assert model.is_excused(PLACE)


def test_an_eligible_leader_replica_counts_as_in_sync(model: ClusterModel) -> None:
    model.note_end(1, image_with((1,), elr=(2,)), loses_data=True)
    assert not model.is_excused(PLACE)


def test_a_controller_that_keeps_the_wrong_one_is_an_excuse(model: ClusterModel) -> None:
    model.note_end(1, image_with((1, 2)), loses_data=True)
    assert not model.is_excused(PLACE)
    model.observe(image_with((1,)))
    assert model.is_excused(PLACE)


def test_a_power_loss_after_kills_of_the_others_is_an_excuse(model: ClusterModel) -> None:
    for broker in (1, 2):
        model.note_end(broker, image_with((1, 2, 3)), loses_data=False)
    model.note_end(3, image_with((1, 2, 3)), loses_data=True)
    assert model.is_excused(PLACE)
