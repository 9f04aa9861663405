"""Limits that the operating system sets for the process."""

from __future__ import annotations

import resource

# macOS reports no hard limit but refuses more than OPEN_MAX.
_FALLBACK_LIMIT = 10_240


def raise_open_file_limit() -> int:
    """Raise the soft limit of open files as far as the process may, and return it.

    A broker needs a descriptor per connection and one per segment in use; login shells often allow only 1024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for target in (hard, _FALLBACK_LIMIT):
        if not _allows(soft, target):
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            except (ValueError, OSError):
                continue
            return target
    return soft


def open_file_limit() -> int | None:
    """Return how many files and sockets the process may have open, None if there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def _allows(limit: int, wanted: int) -> bool:
    """Return whether `limit` is at least `wanted`, where RLIM_INFINITY is above every number."""
    if limit == resource.RLIM_INFINITY:
        return True
    return wanted != resource.RLIM_INFINITY and limit >= wanted
