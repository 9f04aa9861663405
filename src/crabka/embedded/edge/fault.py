"""One fault of a broker: which requests it is for, what happens to them, and how often it did."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from crabka.embedded.edge.names import error_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.embedded.edge.rows import Selection
    from crabka.protocol.api_keys import ApiSpec
    from crabka.protocol.error_codes import ErrorCode

# When a connection is dropped: the request is lost, or only its answer, or nothing.
DropPoint = Literal["before", "executed", "answered"]


@dataclass(frozen=True, slots=True)
class Fail:
    """The request is not executed and answered with an error."""

    code: ErrorCode

    def __str__(self) -> str:
        return error_name(self.code)


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed."""

    point: DropPoint

    def __str__(self) -> str:
        return f"connection dropped ({self.point})"


@dataclass(frozen=True, slots=True)
class Delay:
    """The request is executed and its answer held back."""

    seconds: float

    def __str__(self) -> str:
        return f"answer delayed by {self.seconds} s"


@dataclass(frozen=True, slots=True)
class Throttle:
    """The answer asks the client to wait."""

    throttle_ms: int

    def __str__(self) -> str:
        return f"throttled for {self.throttle_ms} ms"


Effect = Fail | Drop | Delay | Throttle


@dataclass(frozen=True, slots=True)
class Target:
    """The requests that a fault is for."""

    api: ApiSpec
    selection: Selection
    client_id: str | None = None
    node_id: int | None = None

    def matches(self, api_key: int, client_id: str | None, node_id: int) -> bool:
        """Return whether a request may be meant, as far as its header says."""
        return self.api.key == api_key and self.client_id in (None, client_id) and self.node_id in (None, node_id)

    def __str__(self) -> str:
        topic, partition = self.selection
        limits = {"topic": topic, "partition": partition, "client_id": self.client_id, "node": self.node_id}
        return " ".join([self.api.name, *(f"{name}={value}" for name, value in limits.items() if value is not None)])


class Fault:
    """A fault that waits for its requests; as a context manager it ends with the block."""

    def __init__(
        self,
        target: Target,
        effect: Effect,
        times: int | None,
        changed: threading.Condition,
        remove: Callable[[Fault], None],
    ) -> None:
        """`times` is how many requests it hits, None for all; `changed` guards it and is notified of every hit."""
        self.target = target
        self.effect = effect
        self._left = times
        self._hits = 0
        self._changed = changed
        self._remove = remove

    @property
    def hits(self) -> int:
        """Return how many requests it has hit."""
        return self._hits

    @property
    def is_spent(self) -> bool:
        """Return whether it will hit no more requests."""
        return self._left == 0

    def wait_hit(self, times: int = 1, timeout: float = 10.0) -> None:
        """Wait until it has hit so many requests. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._hits >= times, timeout):
                raise TimeoutError(f"{self} was hit {self._hits} times, not {times}, within {timeout:g} s")

    def remove(self) -> None:
        """End the fault. Removing it twice is allowed."""
        self._remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __str__(self) -> str:
        return f"fault of {self.target}: {self.effect}"

    # --- for the edge, under the condition's lock

    def claim(self) -> None:
        """Give the fault to one request."""
        if self._left is not None:
            self._left -= 1

    def note_hit(self) -> None:
        """Count the request that the fault was given to, now that it has happened."""
        self._hits += 1
        self._changed.notify_all()
