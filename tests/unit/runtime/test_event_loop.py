from __future__ import annotations

import asyncio
import sys

import pytest

from crabka.runtime import new_event_loop, run


def test_run_returns_the_result_and_raises_the_error() -> None:
    async def answer() -> int:
        return 42

    async def fail() -> None:
        raise KeyError("x")

    assert run(answer()) == 42
    with pytest.raises(KeyError):
        run(fail())


def test_uvloop_is_used_when_installed() -> None:
    uvloop = pytest.importorskip("uvloop")
    loop = new_event_loop()
    assert isinstance(loop, uvloop.Loop)
    loop.close()


def test_falls_back_to_asyncio_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    assert isinstance(loop, asyncio.SelectorEventLoop)
    loop.close()
