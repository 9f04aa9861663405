"""Ends nodes that were started and never stopped, before their directories are removed."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def end_when_forgotten(owner: object, *ends: Callable[[], None]) -> Callable[[], object]:
    """Call what ends nodes when the owner is collected or the interpreter ends; return what calls that off.

    None of them may refer to the owner.
    """
    return weakref.finalize(owner, _end_own, ends, os.getpid()).detach


def _end_own(ends: Iterable[Callable[[], None]], process_id: int) -> None:
    # A fork has a copy of the owner, and no node.
    if os.getpid() != process_id:
        return
    if threading.current_thread() is threading.main_thread():
        _call_all(ends)
    else:
        # The collector may run on a thread that is to be ended, which cannot wait for itself.
        threading.Thread(target=_call_all, args=(ends,), name="crabka-forgotten", daemon=True).start()


def _call_all(ends: Iterable[Callable[[], None]]) -> None:
    for end in ends:
        end()
