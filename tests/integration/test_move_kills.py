"""kill -9 at every named step of a move, idle and under load: one copy is left, with all that was acknowledged."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

import crabka.broker.logdirs
from tests.support.cluster_process.load import SequencedLoad
from tests.support.moves import load as scene
from tests.support.moves.log_dirs import begin_move, other_dir, wait_moved
from tests.support.moves.steps import CANCEL_STEPS, STEPS
from tests.support.scale import soaking

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.allow_leaks("librdkafka keeps its descriptors and threads until it is collected"),
]

MODULES = Path(crabka.broker.logdirs.__file__).parent
LOADS = ("idle", "produce", "transactions")
# In a normal run the steps after which most is left half done.
SLICE = [
    ("move.after_copied", "transactions"),
    ("move.after_assigned", "idle"),
    ("move.after_future_renamed", "produce"),
    ("move.after_source_renamed", "idle"),
]
CASES = [(step, load) for step in STEPS for load in LOADS] if soaking() else SLICE
KILLED = -9
FILLED = 2_000
MORE = 200


@pytest.mark.parametrize(("step", "kind"), CASES)
def test_a_node_that_dies_during_a_move_has_one_copy_with_everything(step: str, kind: str, tmp_path: Path) -> None:
    # The copy is what transactions write to: there are open ones and their markers while it is moved.
    moved = scene.COPY if kind == "transactions" else scene.ORIGINAL
    with contextlib.ExitStack() as ending:
        node = ending.enter_context(scene.mortal_node(tmp_path, step))
        scene.create_topics(node)
        loads = [scene.fill(node, FILLED)]
        copier = None
        if kind == "transactions":
            copier = ending.enter_context(scene.copying(node, tmp_path))
        if kind != "idle":
            loads.append(SequencedLoad(node.bootstrap_servers, scene.ORIGINAL, 1, rate=100))
            loads[-1].start()
            ending.callback(loads[-1].stop)
        target = other_dir(node, moved)
        begin_move(node, target, moved)
        assert node.wait_exit() == KILLED
        node.step = ""
        node.start()
        wait_moved(node, target, moved)
        if kind != "idle":
            scene.wait_more(loads[-1], MORE)
            loads[-1].stop()
        if copier is not None:
            print(copier.finish())
            scene.check_copy(node)
        scene.check_loads(node, loads)
        scene.check_directories(node, moved)


def test_all_steps_are_known() -> None:
    found = {
        step
        for path in MODULES.glob("*.py")
        for step in re.findall(r"_hit\(\"(move\.[a-z_]+)\"\)", path.read_text(encoding="utf-8"))
    }
    assert found == {*STEPS, *CANCEL_STEPS}
