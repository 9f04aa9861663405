"""What the members of all groups were promised, and the rules that follow from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.support.power_loss.trace import Trace

SESSION_MS = 6_000
REBALANCE_MS = 9_000

Place = tuple[str, int]


@dataclass
class Owner:
    """A member as the ledger knows it: what it owns, and when it last knew to be alive for the coordinator."""

    name: str
    group_id: str
    owned: set[Place] = field(default_factory=set)
    # When the last request was sent that was answered: its session cannot end before this plus the timeout.
    last_heard_s: float = 0.0


class Ledger:
    """Owners and commits of all groups."""

    def __init__(self, trace: Trace, now_s: Callable[[], float]) -> None:
        self._trace = trace
        self._now_s = now_s
        self._owners: dict[tuple[str, Place], Owner] = {}
        self._acknowledged: dict[tuple[str, Place], int] = defaultdict(int)
        self._attempted: dict[tuple[str, Place], int] = defaultdict(int)
        self.claims = 0

    def claim(self, owner: Owner, places: Iterable[Place]) -> None:
        """A member received these partitions; the owner before must have released them, or have timed out."""
        for place in places:
            key = (owner.group_id, place)
            other = self._owners.get(key)
            if other is not None and other is not owner and place in other.owned:
                silent_ms = (self._now_s() - other.last_heard_s) * 1000
                self._trace.require(
                    silent_ms >= SESSION_MS,
                    "one owner per partition",
                    f"{place} of {owner.group_id} goes to {owner.name} while {other.name} has it, "
                    f"who was heard {silent_ms:.0f} ms ago",
                )
                other.owned.discard(place)
            self._owners[key] = owner
            owner.owned.add(place)
            self.claims += 1

    def release(self, owner: Owner, places: Iterable[Place]) -> None:
        """A member stops to use these, before it tells the coordinator so."""
        owner.owned.difference_update(places)

    def note_commit(self, group_id: str, place: Place, offset: int, *, acknowledged: bool) -> None:
        """A member is about to commit, or its commit was acknowledged."""
        key = (group_id, place)
        self._attempted[key] = max(self._attempted[key], offset)
        if acknowledged:
            self._acknowledged[key] = max(self._acknowledged[key], offset)

    def acknowledged(self, group_id: str, place: Place) -> int:
        """Return the highest commit that was acknowledged up to now."""
        return self._acknowledged[group_id, place]

    def check_committed(self, group_id: str, place: Place, offset: int, at_least: int) -> None:
        """A member received a committed offset; `at_least` was acknowledged when it asked."""
        self._trace.require(
            at_least <= offset <= self._attempted[group_id, place],
            "commits are kept and never go back",
            f"{place} of {group_id}: {offset}, but {at_least} was acknowledged "
            f"and at most {self._attempted[group_id, place]} was ever sent",
        )
