"""Moves to and fro while clients write, read and copy with transactions: none of them notices."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.clients.steady_reader import SteadyReader
from tests.support.cluster_process.load import SequencedLoad
from tests.support.moves import load as scene
from tests.support.moves.log_dirs import move
from tests.support.nodes.process import wait_until
from tests.support.scale import scaled, soaking

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(0 if soaking() else 300),
    pytest.mark.allow_leaks("librdkafka keeps its descriptors and threads until it is collected"),
]

MOVES = scaled(4, 50)


def _wait_more(reader: SteadyReader, seen: int) -> None:
    wait_until(lambda: len(reader.values) > seen, "more is read")


def test_clients_go_on_while_their_partitions_move(tmp_path: Path) -> None:
    with scene.mortal_node(tmp_path) as node:
        scene.create_topics(node)
        load = SequencedLoad(node.bootstrap_servers, scene.ORIGINAL, 1, rate=100)
        load.start()
        try:
            with (
                scene.copying(node, tmp_path) as copier,
                SteadyReader(node.bootstrap_servers, scene.ORIGINAL) as reader,
                SteadyReader(node.bootstrap_servers, scene.COPY, isolation="read_committed") as reader_of_copy,
            ):
                wait_until(lambda: reader_of_copy.values, "something was copied")
                for _ in range(MOVES):
                    seen = len(reader_of_copy.values)
                    for topic in (scene.ORIGINAL, scene.COPY):
                        move(node, topic)
                    _wait_more(reader_of_copy, seen)
                load.stop()
                print(copier.finish())
                count = load.acknowledged_count
                wait_until(lambda: len(reader_of_copy.values) >= count, "the whole copy was read")
        finally:
            load.stop()
        assert (reader.errors, reader_of_copy.errors) == ([], [])
        assert reader.offsets == list(range(count))
        assert all(before < after for before, after in pairwise(reader_of_copy.offsets))
        assert reader_of_copy.values == reader.values
        scene.check_loads(node, [load])
        scene.check_copy(node)
        for topic in (scene.ORIGINAL, scene.COPY):
            scene.check_directories(node, topic)
