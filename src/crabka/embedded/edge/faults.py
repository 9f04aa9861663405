"""The faults that a test has asked of a broker or a cluster: made on the test's thread, taken on the node's loop.

broker.fail_next("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
with broker.delay("Fetch", 0.5) as fault:
    ...
assert fault.hits
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from crabka.embedded.edge.fault import Delay, Drop, Effect, Fail, Fault, Target, Throttle
from crabka.embedded.edge.names import api_named, error_named
from crabka.embedded.edge.rows import Selection
from crabka.embedded.edge.shapes import names_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EVERY_ROW: Final = Selection()


class Faults:
    """Faults in the order in which they were asked for. Safe to use from any thread."""

    def __init__(self, before_first: Callable[[], None] | None = None) -> None:
        """`before_first` is called before a fault is added, so that a broker begins to look for them."""
        self._before_first = before_first
        self._changed = threading.Condition()
        # Replaced as a whole, so that the loop may look without a lock.
        self._active: tuple[Fault, ...] = ()

    def fail_next(
        self,
        api: str,
        error: str,
        *,
        times: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        node: int | None = None,
    ) -> Fault:
        """Answer the next requests of an API with an error, without executing them.

        With a topic or a partition only those rows of a request fail; the broker answers the others. Raises ValueError
        for an API or error that Kafka does not have, and for a topic where the API has none.
        """
        code = error_named(error)
        spec = api_named(api)
        selection = Selection(topic, partition)
        if not selection.is_all and not names_topics(spec.key, spec.max_version):
            raise ValueError(f"{spec.name} requests have no rows of topics: leave out topic and partition")
        return self._add(Target(spec, selection, client_id, node), Fail(code), times)

    def delay(
        self,
        api: str,
        seconds: float,
        *,
        times: int | None = None,
        client_id: str | None = None,
        node: int | None = None,
    ) -> Fault:
        """Execute requests of an API as they come, and hold back their answers.

        Later answers of the same connection wait as well, as with a slow broker. Raises ValueError.
        """
        if seconds < 0:
            raise ValueError(f"a delay is at least 0 seconds, not {seconds}")
        return self._add(Target(api_named(api), _EVERY_ROW, client_id, node), Delay(seconds), times)

    def drop_connection(
        self,
        *,
        after: str | None = None,
        before: str | None = None,
        before_answer: bool = True,
        times: int | None = 1,
        client_id: str | None = None,
        node: int | None = None,
    ) -> Fault:
        """Close the connection on which a request of an API arrives.

        `before`: the request is lost. `after`: it is executed, and its answer is lost, or with `before_answer=False`
        sent. Raises ValueError.
        """
        api = after if after is not None else before
        if api is None or (after is not None and before is not None):
            raise ValueError("name the API either with after= or with before=")
        point: Final = "before" if after is None else "executed" if before_answer else "answered"
        return self._add(Target(api_named(api), _EVERY_ROW, client_id, node), Drop(point), times)

    def throttle(
        self,
        api: str,
        throttle_ms: int,
        *,
        times: int | None = None,
        client_id: str | None = None,
        node: int | None = None,
    ) -> Fault:
        """Put `throttle_time_ms` into the answers of an API. Raises ValueError."""
        if throttle_ms < 0:
            raise ValueError(f"a throttle time is at least 0 ms, not {throttle_ms}")
        return self._add(Target(api_named(api), _EVERY_ROW, client_id, node), Throttle(throttle_ms), times)

    def clear(self) -> None:
        """End all faults."""
        with self._changed:
            self._active = ()

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._active)

    def __len__(self) -> int:
        return len(self._active)

    def _add(self, target: Target, effect: Effect, times: int | None) -> Fault:
        if times is not None and times < 1:
            raise ValueError(f"a fault hits at least 1 request, not {times}")
        if self._before_first is not None:
            self._before_first()
        fault = Fault(target, effect, times, self._changed, self._remove)
        with self._changed:
            self._active = (*self._active, fault)
        return fault

    def _remove(self, fault: Fault) -> None:
        with self._changed:
            self._active = tuple(each for each in self._active if each is not fault)

    # --- for the edge, on a node's loop

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to look for."""
        return not self._active

    def candidates(self, api_key: int, client_id: str | None, node_id: int) -> list[Fault]:
        """Return the faults that may be for a request, as far as its header says."""
        return [each for each in self._active if each.target.matches(api_key, client_id, node_id)]

    def take(self, candidates: list[Fault], selects: Callable[[Selection], bool]) -> list[Fault]:
        """Give a request its faults: all delays and throttles, and the first that fails it or drops its connection.

        `selects` says whether the request has rows of a selection.
        """
        taken: list[Fault] = []
        is_decided = False
        with self._changed:
            for fault in candidates:
                decides = isinstance(fault.effect, Fail | Drop)
                if fault.is_spent or (decides and is_decided) or not selects(fault.target.selection):
                    continue
                is_decided |= decides
                fault.claim()
                taken.append(fault)
            self._active = tuple(each for each in self._active if not each.is_spent)
        return taken

    def note_hit(self, fault: Fault) -> None:
        """Report that a fault has happened."""
        with self._changed:
            fault.note_hit()
