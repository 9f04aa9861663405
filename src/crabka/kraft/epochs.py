"""How far ahead an epoch of a peer may lie, so that no single message uses up the epochs of a quorum.

An epoch is an int32 and never goes back: a replica in the largest one can never stand again. An honest peer is a
few epochs ahead, since every election adds one. Therefore

- requests, which anyone who reaches the listener can send, raise the epoch by at most `request_epochs` within
  `request_epochs_window_ms`;
- responses, which come from an address that this replica chose to ask, raise it by at most `response_epochs` each;
- no replica stands in an epoch above MAX_EPOCH.

Refusing a message is the same as losing it, which Raft allows at any time. A correct replica that is further behind
learns the epoch from the responses to its own fetches and votes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabka.kraft.settings import KraftSettings

# Epochs are int32 on the wire, in batches and in quorum-state.
MAX_EPOCH = (1 << 31) - 1


class EpochGuard:
    """What a replica believes of the epochs that peers name."""

    def __init__(self, settings: KraftSettings) -> None:
        self._settings = settings
        self._window_end_ms: int | None = None
        # How many epochs requests added within the window.
        self._spent = 0

    def take_request(self, known: int, wanted: int, now_ms: int) -> bool:
        """Return whether a request may raise the epoch from `known` to `wanted` now, and count it if so."""
        if wanted <= known:
            return True
        if self._window_end_ms is None or now_ms >= self._window_end_ms:
            self._window_end_ms = now_ms + self._settings.request_epochs_window_ms
            self._spent = 0
        if wanted > MAX_EPOCH or self._spent + wanted - known > self._settings.request_epochs:
            return False
        self._spent += wanted - known
        return True

    def allows_response(self, known: int, wanted: int) -> bool:
        """Whether a response may raise the epoch from `known` to `wanted`."""
        return wanted <= min(known + self._settings.response_epochs, MAX_EPOCH)
