"""Failpoints of a real process: it kills itself where a test wants it to.

`CRABKA_FAILPOINT=<name>` ends the process with SIGKILL when it reaches that place, `<name>:<n>` when it does so for the
n-th time. It counts only together with `CRABKA_ALLOW_FAILPOINTS=1`: one forgotten variable must not end a node.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from crabka.errors import ConfigError
from crabka.ports import Failpoints, NoFailpoints

PLACE = "CRABKA_FAILPOINT"
LEAVE = "CRABKA_ALLOW_FAILPOINTS"


class KillingFailpoint:
    """Ends the process at one place, as `kill -9` does."""

    def __init__(self, name: str, count: int = 1) -> None:
        self._name = name
        self._remaining = count

    def hit(self, name: str) -> None:
        """End the process if this is the place."""
        if name != self._name:
            return
        self._remaining -= 1
        if self._remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def failpoints_from_environment(environment: Mapping[str, str] | None = None) -> Failpoints:
    """Return the failpoints of the environment, usually none. Raises ConfigError for a count that is no number."""
    environment = os.environ if environment is None else environment
    place = environment.get(PLACE, "")
    if not place or environment.get(LEAVE) != "1":
        return NoFailpoints()
    name, _, count = place.partition(":")
    if count and not (count.isdigit() and int(count)):
        raise ConfigError(f"{PLACE}={place}: {count} is no count")
    return KillingFailpoint(name, int(count or 1))
