from __future__ import annotations

import resource

import pytest

from crabka.runtime import raise_open_file_limit


class Limits:
    """The limit of one process, with a kernel that refuses more than `allowed`."""

    def __init__(self, soft: int, hard: int, allowed: int) -> None:
        self.soft, self.hard, self.allowed = soft, hard, allowed

    def getrlimit(self, kind: int) -> tuple[int, int]:
        assert kind == resource.RLIMIT_NOFILE
        return self.soft, self.hard

    def setrlimit(self, kind: int, limits: tuple[int, int]) -> None:
        assert kind == resource.RLIMIT_NOFILE
        assert limits[1] == self.hard
        if limits[0] == resource.RLIM_INFINITY or limits[0] > self.allowed:
            raise ValueError("current limit exceeds maximum limit")
        self.soft = limits[0]


@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "expected"),
    [
        (1024, 4096, 4096, 4096),
        (4096, 4096, 4096, 4096),
        (256, resource.RLIM_INFINITY, 10_240, 10_240),  # macOS
        (20_000, resource.RLIM_INFINITY, 20_000, 20_000),  # macOS, raised by the user: not lowered
        (1024, 4096, 1024, 1024),  # a sandbox that refuses every change
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 0, resource.RLIM_INFINITY),
    ],
)
def test_soft_limit_is_raised_as_far_as_allowed(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, allowed: int, expected: int
) -> None:
    limits = Limits(soft, hard, allowed)
    monkeypatch.setattr(resource, "getrlimit", limits.getrlimit)
    monkeypatch.setattr(resource, "setrlimit", limits.setrlimit)
    assert raise_open_file_limit() == expected
    assert limits.soft == expected
