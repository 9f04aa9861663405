from __future__ import annotations

import logging

import pytest

from crabka.net.descriptor_guard import DescriptorGuard


def test_connections_are_refused_where_the_reserve_begins_and_that_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = DescriptorGuard(1000, lambda: 300)
    with caplog.at_level(logging.INFO):
        assert guard.admits(699)
        assert not guard.admits(700)
        assert not guard.admits(701)
        # One that fits because another ended does not end the episode.
        assert guard.admits(699)
        assert not guard.admits(700)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert guard.refused_count == 3


def test_another_episode_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    guard = DescriptorGuard(1000, lambda: 300)
    with caplog.at_level(logging.INFO):
        assert not guard.admits(700)
        assert guard.admits(600)
        assert not guard.admits(700)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_what_the_logs_have_opened_already_is_not_kept_twice() -> None:
    reserve = 300
    guard = DescriptorGuard(1000, lambda: reserve)
    assert not guard.admits(800)
    reserve = 100
    assert guard.admits(800)


def test_without_a_limit_no_connection_is_refused() -> None:
    assert DescriptorGuard(None, lambda: 10**9).admits(10**6)


def test_a_crowd_that_comes_and_goes_is_one_episode(caplog: pytest.LogCaptureFixture) -> None:
    """A turn of the loop accepts many before it notices that others have gone."""
    guard = DescriptorGuard(256, lambda: 112)
    with caplog.at_level(logging.INFO):
        assert not guard.admits(144)
        assert all(guard.admits(number) for number in range(112, 144))
        assert not guard.admits(144)
        assert guard.admits(40)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_an_episode_ends_however_low_the_limit_is(caplog: pytest.LogCaptureFixture) -> None:
    guard = DescriptorGuard(40, lambda: 20)
    with caplog.at_level(logging.INFO):
        assert not guard.admits(20)
        assert guard.admits(9)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
