"""Which log dir an error is blamed on."""

from __future__ import annotations

import errno

import pytest

from crabka.broker.logdirs.disk_errors import SourceChangedError, blaming, has_no_room
from crabka.errors import StorageError


def test_an_error_of_the_disk_names_its_log_dir() -> None:
    with pytest.raises(StorageError, match="broken") as raised, blaming("/d1"):
        raise OSError(errno.EIO, "broken")
    assert raised.value.log_dir == "/d1"
    assert not has_no_room(raised.value)


def test_other_errors_pass() -> None:
    with pytest.raises(SourceChangedError), blaming("/d1"):
        raise SourceChangedError("cut")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_not_a_broken_one(code: int) -> None:
    with pytest.raises(StorageError) as raised, blaming("/d1"):
        raise OSError(code, "full")
    assert has_no_room(raised.value)


def test_an_error_without_a_cause_is_no_full_disk() -> None:
    assert not has_no_room(StorageError("/d1", "no idea"))
