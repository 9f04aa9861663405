"""The I/O shell of the failure detector: reports connections to it, dials brokers, and fences as it decides.

It does not check whether the quorum is alive: a broker is fenced by a committed record, which takes a live majority.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.failure_detector import (
    BrokerGone,
    ConnectionBroke,
    ControllerActivated,
    ControllerDeactivated,
    DetectorTick,
    DialBroker,
    DialFinished,
    DialOutcome,
    FailureDetector,
    FenceEarly,
    HeartbeatArrived,
    QuorumLiveness,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable, Iterable

    from crabka.controller.decisions.failure_detector import DetectorEvent
    from crabka.controller.decisions.sessions import BrokerIncarnation
    from crabka.metadata.cluster import Endpoint
    from crabka.ports import Runtime, Spawn

DIAL_TIMEOUT_MS = 1000


class BrokerWatch:
    """Watches the brokers of one controller while it is active."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        endpoint_of: Callable[[BrokerIncarnation], Endpoint | None],
        fence: Callable[[BrokerIncarnation], Coroutine[Any, Any, None]],
        spawn: Spawn,
        enabled: bool = True,
    ) -> None:
        self._runtime = runtime
        self._endpoint_of = endpoint_of
        self._fence = fence
        self._spawn = spawn
        self._detector = FailureDetector(enabled=enabled)
        self._timer: asyncio.TimerHandle | None = None

    def activate(self, brokers: Iterable[BrokerIncarnation]) -> None:
        """Begin to watch: this controller is active now, and these brokers serve."""
        self._step(ControllerActivated(list(brokers)))
        self._step(QuorumLiveness(is_live=True))

    def deactivate(self) -> None:
        """Stop watching: another controller is active."""
        self._step(ControllerDeactivated())

    def note_heartbeat(self, broker: BrokerIncarnation, connection: Hashable) -> None:
        """Note a heartbeat of the registered incarnation over this connection."""
        self._step(HeartbeatArrived(broker, connection))

    def connection_closed(self, connection: Hashable) -> None:
        """Note that a connection to the controller listener ended."""
        self._step(ConnectionBroke(connection))

    def gone(self, broker: BrokerIncarnation) -> None:
        """Note that an incarnation was fenced, replaced or unregistered."""
        self._step(BrokerGone(broker))

    def _step(self, event: DetectorEvent) -> None:
        now_ms = self._runtime.clock.monotonic_ms()
        for action in self._detector.step(event, now_ms):
            match action:
                case DialBroker(broker):
                    self._spawn(self._dial(broker))
                case FenceEarly(broker):
                    self._spawn(self._fence(broker))
        self._arm(now_ms)

    def _arm(self, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_ms = self._detector.next_wake_ms
        if wake_ms is not None:
            delay = max(wake_ms - now_ms, 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay, self._step, DetectorTick())

    async def _dial(self, broker: BrokerIncarnation) -> None:
        endpoint = self._endpoint_of(broker)
        outcomes = [] if endpoint is None else [await self._try(endpoint)]
        self._step(DialFinished(broker, outcomes))

    async def _try(self, endpoint: Endpoint) -> DialOutcome:
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_MS / 1000):
                transport, _ = await self._runtime.network.connect(asyncio.Protocol, endpoint.host, endpoint.port)
        except ConnectionRefusedError:
            # The port promises that every address of the host refused.
            return DialOutcome.REFUSED
        except TimeoutError:
            return DialOutcome.TIMED_OUT
        except OSError:
            return DialOutcome.UNREACHABLE
        transport.close()
        return DialOutcome.CONNECTED
