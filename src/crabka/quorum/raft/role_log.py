"""Log lines of the roles of a voter; elections without an end are not logged one by one.

Without a majority a voter stands for election every second or two, for hours. The first rounds are logged; after
them one warning says so, and is repeated from time to time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from crabka.kraft.roles import RoleName

if TYPE_CHECKING:
    from crabka.kraft.actions import RoleChanged
    from crabka.ports import Clock

# Two rounds, each of which begins and fails.
_SHOWN: Final = 4
_REPEAT_MS: Final = 60_000
_WITHOUT_LEADER: Final = frozenset({RoleName.UNATTACHED, RoleName.PROSPECTIVE, RoleName.CANDIDATE})


class RoleLog:
    """Writes the log lines of one voter."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._change_count = 0
        self._since_ms = 0
        self._warned_ms = 0

    def note(self, change: RoleChanged) -> None:
        """Log a change of the role, or count it."""
        now_ms = self._clock.monotonic_ms()
        election = change.election
        if change.after not in _WITHOUT_LEADER or election.leader_id is not None:
            self._change_count = 0
        else:
            self._change_count += 1
            if self._change_count == 1:
                self._since_ms = now_ms
        if self._change_count <= _SHOWN:
            self._logger.info(
                "%s in epoch %d, leader %s: %s", change.after.value, election.epoch, election.leader_id, change.reason
            )
        elif self._change_count == _SHOWN + 1 or now_ms - self._warned_ms >= _REPEAT_MS:
            self._warned_ms = now_ms
            self._logger.warning(
                "no leader for %d s, epoch %d: %s; elections go on and are logged every %d s",
                (now_ms - self._since_ms) // 1000,
                election.epoch,
                change.reason,
                _REPEAT_MS // 1000,
            )
