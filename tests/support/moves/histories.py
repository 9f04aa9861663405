"""Random histories of moves, crashes and failing disks."""

from __future__ import annotations

import asyncio
import random

from tests.support.moves.world import DIRS, MoveNode, MoveWorld

LIVES = 4


DEEDS = ["append"] * 5 + ["move"] * 4 + ["rest"] * 3 + ["flush", "cut", "trim", "retain", "fill", "fail", "replace"]


async def work(node: MoveNode, rng: random.Random, steps: int) -> None:
    """Do random things, some of them side by side."""
    running: list[asyncio.Task[None]] = []
    for _ in range(steps):
        end = len(node.world.model.lines)
        match rng.choice(DEEDS):
            case "append":
                await node.append(rng.randrange(1, 12))
            case "move":
                node.move(rng.choice(DIRS))
            case "rest":
                await asyncio.sleep(rng.choice((0.0, 0.001, 0.01, 0.1)))
            case "flush":
                running.append(asyncio.ensure_future(node.flush()))
            case "cut":
                await node.cut(rng.randrange(max(end - 8, 0), end + 1))
            case "replace":
                # A copy that is nearly done loses its end to other records.
                node.move(rng.choice(DIRS))
                await asyncio.sleep(rng.uniform(0.0, 0.15))
                await node.cut(rng.randrange(max(end - 8, 0), end + 1))
                await node.append(9)
                await asyncio.sleep(0.3)
            case "trim":
                running.append(asyncio.ensure_future(node.trim(rng.randrange(end + 1))))
            case "retain":
                running.append(asyncio.ensure_future(node.retain()))
            case "fill" if rng.random() < 0.3:
                node.fill(rng.choice(DIRS))
            case "fail" if rng.random() < 0.15:
                node.fail(rng.choice(DIRS))
    if running:
        await asyncio.wait(running)


def live(world: MoveWorld, rng: random.Random) -> None:
    """Boot, check, work, and end in one of several ways."""
    failed = rng.choice(DIRS) if rng.random() < 0.25 else None
    ending = rng.choice(("kill", "power", "power", "stop"))
    crash_after = rng.randrange(1, 700) if ending != "stop" else None
    node = MoveNode(world, failed=failed, crash_after=crash_after, mischief=rng)
    node.boot()
    node.check()
    node.run(work(node, rng, rng.randrange(4, 40)))
    if ending == "stop":
        node.stop()
    else:
        world.crash(keeps_cache=ending == "kill")


def run(seed: int) -> None:
    """One history."""
    rng = random.Random(seed)
    world = MoveWorld(rng)
    try:
        for _ in range(LIVES):
            live(world, rng)
        settle_down(world)
    finally:
        if world.node is not None:
            world.node.kill()


def settle_down(world: MoveWorld) -> None:
    """Let all disks work and all moves end."""
    node = MoveNode(world)
    node.boot()
    node.check()
    node.run(asyncio.sleep(5))
    node.check()
    node.run(node.append(3))
    node.delete()
    assert not len(node.moves), "a move never ends"
    leftovers = [name for path in DIRS for name in world.memory.listdir(path) if "move-" in name or "-future" in name]
    assert not leftovers, leftovers
    node.stop()
