"""Threads of blocking clients."""

from __future__ import annotations

import threading

import pytest

from crabka.clients.sync.admin import SyncAdmin
from crabka.clients.sync.session import LoopThread
from crabka.errors import ConfigError
from tests.support.clusters.loopback import loopback_cluster


def test_clients_close_twice_and_leave_no_thread() -> None:
    before = threading.active_count()
    with loopback_cluster() as (_, bootstrap):
        admin = SyncAdmin(bootstrap)
        admin.close()
        admin.close()
    assert threading.active_count() == before


def test_bad_bootstrap_leaves_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ConfigError):
        SyncAdmin("a:b")
    assert threading.active_count() == before


def test_loop_thread_raises_what_the_coroutine_raises() -> None:
    async def fail() -> None:
        raise LookupError("here")

    thread = LoopThread("test")
    with pytest.raises(LookupError, match="here"):
        thread.run(fail())
    thread.close()
    thread.close()
