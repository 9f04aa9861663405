"""Whose fault an error of the disk is: a move works on two log dirs, and only the one that failed goes offline."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crabka.errors import CrabkaError, StorageError

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SourceChangedError(CrabkaError):
    """A file of the source is not what it was when a step was chosen: retention or a truncation was faster."""


@contextmanager
def blaming(log_dir: str) -> Iterator[None]:
    """Turn an OSError into a StorageError of a log dir."""
    try:
        yield
    except OSError as error:
        raise StorageError(log_dir, str(error)) from error


def has_no_room(error: StorageError) -> bool:
    """Return whether a disk is merely full: nothing on it is lost, and a move can be given up."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _NO_ROOM
