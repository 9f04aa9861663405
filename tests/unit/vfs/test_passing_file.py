from __future__ import annotations

import os
from pathlib import Path

import pytest

from crabka.vfs import passing_file


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_file_is_there_for_this_process_alone_and_gone_afterwards(
    in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif not hasattr(os, "memfd_create"):
        pytest.skip("this system has no files in memory")
    with passing_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        assert path.startswith("/proc/") == in_memory
        assert in_memory or Path(path).stat().st_mode & 0o777 == 0o600
    assert not Path(path).exists()
